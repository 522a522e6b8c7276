#include "tftp_client.hpp"

#include <cstdlib>

namespace ductl::netboot::test {

using namespace std::string_literals;

Bytes TftpClient::request(const std::string& name) const {
  std::string text = "\0\1"s + name + "\0octet\0"s;
  if (wishes_.size) text += "tsize\0000\0"s;
  if (wishes_.block_bytes) text += "blksize\0"s + std::to_string(*wishes_.block_bytes) + "\0"s;
  if (wishes_.window_blocks) text += "windowsize\0"s + std::to_string(*wishes_.window_blocks) + "\0"s;
  const ByteView view = bytes_of(text);
  return {view.begin(), view.end()};
}

std::vector<Bytes> TftpClient::feed(ByteView packet) {
  Reader in(packet);
  const std::uint16_t opcode = in.u16();
  if (opcode == 6) return on_options(text_of(in.rest()));
  const std::uint16_t number = in.u16();
  if (opcode == 5) error_ = std::to_string(number) + " " + std::string(text_of(in.rest()));
  return opcode == 3 && !in.failed() ? on_data(number, in.rest()) : std::vector<Bytes>{};
}

std::vector<Bytes> TftpClient::timed_out() {
  if (!heard_) return {};
  unacked_ = 0;
  return {ack()};
}

std::vector<Bytes> TftpClient::on_options(std::string_view text) {
  if (blocks_ != 0) return {};
  while (!text.empty()) {
    const std::string name(text.substr(0, text.find('\0')));
    text.remove_prefix(name.size() + 1);
    const std::string value(text.substr(0, text.find('\0')));
    text.remove_prefix(value.size() + 1);
    const std::uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "tsize") size_ = number;
    if (name == "blksize") block_bytes_ = number;
    if (name == "windowsize") window_blocks_ = static_cast<std::uint32_t>(number);
  }
  heard_ = true;
  return {ack()};
}

std::vector<Bytes> TftpClient::on_data(std::uint16_t number, ByteView data) {
  heard_ = true;
  if (done_) return {ack()};
  if (number != static_cast<std::uint16_t>(blocks_ + 1)) { // a gap, or an old block: say once where we are
    if (gap_told_) return {};
    gap_told_ = true;
    unacked_ = 0;
    return {ack()};
  }
  gap_told_ = false;
  ++blocks_;
  file_.insert(file_.end(), data.begin(), data.end());
  done_ = data.size() < block_bytes_;
  if (++unacked_ < window_blocks_ && !done_) return {};
  unacked_ = 0;
  return {ack()};
}

Bytes TftpClient::ack() const { return Writer().u16(4).u16(static_cast<std::uint16_t>(blocks_)).take(); }

} // namespace ductl::netboot::test
