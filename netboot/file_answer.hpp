// What an HTTP request for a boot file is answered: a head as text, and which bytes of which file follow. Pure: the loop sends.
#pragma once

#include "netboot/boot_file.hpp"
#include "netboot/http/answer_head.hpp"

#include <memory>
#include <string>

namespace ductl::netboot {

struct FileAnswer {
  int status = 200;
  std::string bytes;                    // the head, and the body where that is text of ours
  std::shared_ptr<const BootFile> file; // nothing follows when null (HEAD, faults)
  std::uint64_t offset = 0, length = 0; // of what follows
  bool keep_alive = true;
  std::string name; // of the file that was asked for; "" when there is none
};

// 200 or 206; 404 for what is not in `files`, 405 for what is not GET or HEAD, 416 for a range that does not exist.
[[nodiscard]] FileAnswer answer_file_request(const http::Request& request, const http::AnswerForm& form, const BootFiles& files);

} // namespace ductl::netboot
