#include "agent/client/serving.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

namespace ductl::agent {

namespace {

using nlohmann::json;
using namespace inventory;

constexpr const char* kSchema = "ductl/serving/v1";

template <class T, std::size_t N> struct Names { std::pair<T, const char*> entries[N]; };
constexpr Names<Fanout, 2> kFanout{{{Fanout::Unicast, "unicast"}, {Fanout::Broadcast, "broadcast"}}};
constexpr Names<TransportKind, 2> kTransport{{{TransportKind::Udp, "udp"}, {TransportKind::Dpdk, "dpdk"}}};
constexpr Names<AttentionKind, 3> kAttention{
    {{AttentionKind::Auto, "auto"}, {AttentionKind::Cpu, "cpu"}, {AttentionKind::Cuda, "cuda"}}};
constexpr Names<HiddenType, 2> kHidden{{{HiddenType::F32, "f32"}, {HiddenType::Bf16, "bf16"}}};
constexpr Names<ReplyType, 2> kReply{{{ReplyType::Exact, "exact"}, {ReplyType::Compact, "compact"}}};
constexpr Names<IndexKeys, 2> kIndexKeys{{{IndexKeys::F32, "f32"}, {IndexKeys::Fp8, "fp8"}}};
constexpr Names<SpeculationKind, 2> kSpeculation{{{SpeculationKind::Mtp, "mtp"}, {SpeculationKind::Off, "off"}}};

template <class T, std::size_t N> const char* name_of(const Names<T, N>& names, T value) {
  for (const auto& [entry, name] : names.entries)
    if (entry == value) return name;
  return "";
}

// Thrown and caught in this file only: what is wrong with serving.json.
struct BadServing {
  std::string message;
};

template <class T, std::size_t N> T value_of(const Names<T, N>& names, const json& text) {
  const auto& wanted = text.get_ref<const std::string&>();
  for (const auto& [entry, name] : names.entries)
    if (wanted == name) return entry;
  throw BadServing{"unknown value '" + wanted + "'"};
}

template <class T> T number(const json& value) {
  if (!value.is_number_integer()) throw BadServing{"a number is expected, not " + value.dump()};
  if (value.is_number_unsigned() ? value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<T>::max())
                                 : value.get<std::int64_t>() < static_cast<std::int64_t>(std::numeric_limits<T>::min()))
    throw BadServing{value.dump() + " is out of range"};
  return value.get<T>();
}

Ipv4 address(const json& value) {
  const auto parsed = parse_ipv4(value.get_ref<const std::string&>());
  if (!parsed) throw BadServing{"no IPv4 address: " + value.dump()};
  return *parsed;
}

json to_json(const Port& port) {
  return {{"name", port.name},
          {"interface", port.interface},
          {"address", to_string(port.address)},
          {"prefix_length", port.prefix_length},
          {"fanout", name_of(kFanout, port.fanout)}};
}

json to_json(const ServingDuck& duck) {
  return {{"name", duck.name},
          {"port_index", duck.port_index},
          {"address", to_string(duck.address)},
          {"control_port", duck.control_port},
          {"data_port", duck.data_port}};
}

json to_json(const Engine& engine) {
  return {{"attention", name_of(kAttention, engine.attention)},
          {"transport", name_of(kTransport, engine.transport)},
          {"hidden", name_of(kHidden, engine.hidden)},
          {"reply", name_of(kReply, engine.reply)},
          {"index_keys", name_of(kIndexKeys, engine.index_keys)},
          {"speculation", name_of(kSpeculation, engine.speculation)},
          {"context_length", engine.context_length},
          {"threads", engine.threads},
          {"api_address", to_string(engine.api_address)},
          {"api_port", engine.api_port}};
}

json to_json(const Limits& limits) {
  return {{"dead_after_ms", limits.dead_after_ms},
          {"boot_timeout_s", limits.boot_timeout_s},
          {"control_timeout_ms", limits.control_timeout_ms},
          {"request_tokens_max", limits.request_tokens_max}};
}

Port port_from(const json& value) {
  Port port;
  port.name = value.at("name").get<std::string>();
  port.interface = value.at("interface").get<std::string>();
  port.address = address(value.at("address"));
  port.prefix_length = number<int>(value.at("prefix_length"));
  port.fanout = value_of(kFanout, value.at("fanout"));
  return port;
}

ServingDuck duck_from(const json& value, std::size_t ports) {
  ServingDuck duck;
  duck.name = value.at("name").get<std::string>();
  duck.port_index = number<int>(value.at("port_index"));
  if (duck.port_index < 0 || static_cast<std::size_t>(duck.port_index) >= ports)
    throw BadServing{"duck " + duck.name + " names no port"};
  duck.address = address(value.at("address"));
  duck.control_port = number<std::uint16_t>(value.at("control_port"));
  duck.data_port = number<std::uint16_t>(value.at("data_port"));
  return duck;
}

Engine engine_from(const json& value) {
  Engine engine;
  engine.attention = value_of(kAttention, value.at("attention"));
  engine.transport = value_of(kTransport, value.at("transport"));
  engine.hidden = value_of(kHidden, value.at("hidden"));
  engine.reply = value_of(kReply, value.at("reply"));
  engine.index_keys = value_of(kIndexKeys, value.at("index_keys"));
  engine.speculation = value_of(kSpeculation, value.at("speculation"));
  engine.context_length = number<int>(value.at("context_length"));
  engine.threads = number<int>(value.at("threads"));
  engine.api_address = address(value.at("api_address"));
  engine.api_port = number<std::uint16_t>(value.at("api_port"));
  return engine;
}

Limits limits_from(const json& value) {
  Limits limits;
  limits.dead_after_ms = number<int>(value.at("dead_after_ms"));
  limits.boot_timeout_s = number<int>(value.at("boot_timeout_s"));
  limits.control_timeout_ms = number<int>(value.at("control_timeout_ms"));
  limits.request_tokens_max = number<int>(value.at("request_tokens_max"));
  return limits;
}

Serving serving_from(const json& value) {
  if (value.at("schema") != kSchema) throw BadServing{"the schema is not " + std::string(kSchema)};
  Serving serving;
  serving.flock = value.at("flock").get<std::string>();
  serving.model_source = value.at("model_source").get<std::string>();
  serving.chat_format = value.at("chat_format").get<std::string>();
  serving.manifest = value.at("manifest").get<std::string>();
  serving.epoch = number<std::uint32_t>(value.at("epoch"));
  serving.slices_total = number<std::uint64_t>(value.at("slices_total"));
  for (const json& port : value.at("ports")) serving.ports.push_back(port_from(port));
  for (const json& duck : value.at("ducks")) serving.ducks.push_back(duck_from(duck, serving.ports.size()));
  serving.engine = engine_from(value.at("engine"));
  serving.limits = limits_from(value.at("limits"));
  return serving;
}

tl::unexpected<Error> file_error(const char* what, const std::filesystem::path& file) {
  return fail(ErrorCode::kState, fmt::format("serving.json cannot be {}: {}", what, std::strerror(errno)), file,
              "check that the state folder is there and writable for you");
}

} // namespace

std::string serving_text(const Serving& serving) {
  json ports = json::array(), ducks = json::array();
  for (const Port& port : serving.ports) ports.push_back(to_json(port));
  for (const ServingDuck& duck : serving.ducks) ducks.push_back(to_json(duck));
  const json value{{"schema", kSchema},
                   {"flock", serving.flock},
                   {"model_source", serving.model_source},
                   {"chat_format", serving.chat_format},
                   {"manifest", serving.manifest.string()},
                   {"epoch", serving.epoch},
                   {"slices_total", serving.slices_total},
                   {"ports", std::move(ports)},
                   {"ducks", std::move(ducks)},
                   {"engine", to_json(serving.engine)},
                   {"limits", to_json(serving.limits)}};
  return value.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Expected<Serving> load_serving(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return file_error("read", file);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const auto wrong = [&file](const std::string& message) {
    return fail(ErrorCode::kState, "serving.json is not what ductl writes: " + message, file, "write it anew with ductl up");
  };
  try {
    return serving_from(json::parse(text));
  } catch (const BadServing& bad) { return wrong(bad.message); } catch (const json::exception& exception) {
    return wrong(exception.what());
  }
}

Expected<void> save_serving(const Serving& serving, const std::filesystem::path& file) {
  const std::string text = serving_text(serving), temporary = file.string() + ".new";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return file_error("written", file);
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(fd) == 0;
  const int cause = errno;
  ::close(fd);
  errno = cause;
  if (!written || ::rename(temporary.c_str(), file.c_str()) != 0) {
    auto error = file_error("written", file);
    ::unlink(temporary.c_str());
    return error;
  }
  return {};
}

} // namespace ductl::agent
