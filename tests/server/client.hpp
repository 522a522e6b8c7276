// An HTTP client for tests: libcurl, one request a call.
#pragma once

#include <curl/curl.h>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ductl::engine {

struct Reply {
  long status = 0;                            // 0: the request was given up
  std::map<std::string, std::string> headers; // names in lower case
  std::string body;

  [[nodiscard]] nlohmann::json json() const { return nlohmann::json::parse(body); }
  [[nodiscard]] nlohmann::json error() const { return json().at("error"); }
};

struct Call {
  std::string path = "/v1/chat/completions";
  std::string body = {};                                   // empty: GET
  std::vector<std::string> headers = {};                   // "Name: value"
  std::string method = {};                                 // other than GET and POST
  std::function<bool(const std::string& body)> go_on = {}; // asked with what has come so far; false gives up
  long timeout_ms = 20'000;
};

inline Reply call(std::uint16_t port, const Call& what) {
  Reply reply;
  struct Taken {
    Reply& reply;
    const Call& what;
  } taken{reply, what};
  const auto take_body = +[](char* bytes, std::size_t size, std::size_t count, void* to) -> std::size_t {
    auto& [into, asked] = *static_cast<Taken*>(to);
    into.body.append(bytes, size * count);
    return asked.go_on && !asked.go_on(into.body) ? 0 : size * count;
  };
  const auto take_header = +[](char* bytes, std::size_t size, std::size_t count, void* to) -> std::size_t {
    const std::string line(bytes, size * count);
    if (const std::size_t colon = line.find(": "); colon != std::string::npos) {
      std::string name = line.substr(0, colon);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      static_cast<Taken*>(to)->reply.headers[name] = line.substr(colon + 2, line.find_last_not_of("\r\n") - colon - 1);
    }
    return size * count;
  };
  CURL* curl = curl_easy_init();
  const std::string url = "http://127.0.0.1:" + std::to_string(port) + what.path;
  curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/json");
  for (const std::string& header : what.headers) headers = curl_slist_append(headers, header.c_str());
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, what.timeout_ms);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &taken);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &taken);
  if (!what.body.empty()) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, static_cast<long>(what.body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, what.body.c_str());
  }
  if (!what.method.empty()) curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, what.method.c_str());
  if (curl_easy_perform(curl) == CURLE_OK) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &reply.status);
  curl_slist_free_all(headers);
  curl_easy_cleanup(curl);
  return reply;
}

// The data of each event of a stream; comments are left out, "event: error" is kept as a prefix "error:".
inline std::vector<std::string> events_of(const std::string& stream) {
  std::vector<std::string> events;
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t end = stream.find("\n\n", at);
    if (end == std::string::npos) break; // cut short
    std::string block = stream.substr(at, end - at);
    at = end + 2;
    std::string kind;
    if (block.starts_with("event: error\n")) kind = "error:", block.erase(0, 13);
    if (block.starts_with("data: ")) events.push_back(kind + block.substr(6));
  }
  return events;
}

} // namespace ductl::engine
