#include "netboot/tftp/transfer.hpp"

#include <algorithm>

namespace ductl::netboot::tftp {

Transfer::Transfer(ByteView file, const Asked& asked, std::size_t block_bytes_max) : file_(file), asked_(asked) {
  if (asked.block_bytes) block_bytes_ = std::min<std::size_t>(*asked.block_bytes, std::max(block_bytes_max, kBlockBytesMin));
  if (asked.window_blocks) window_blocks_ = std::min(*asked.window_blocks, kWindowBlocksGranted);
  if (asked.timeout_s) timeout_ = std::chrono::seconds(*asked.timeout_s);
  blocks_ = file.size() / block_bytes_ + 1;
}

void Transfer::begin(Instant now, std::vector<Bytes>& out) {
  options_open_ = asked_.size || asked_.block_bytes || asked_.window_blocks || asked_.timeout_s;
  options_open_ ? send_options(now, out) : send_window(0, now, out);
}

void Transfer::feed(ByteView packet, Instant now, std::vector<Bytes>& out) {
  if (state_ != TransferState::Running) return;
  const auto answer = parse_answer(packet);
  if (!answer) return;
  if (answer->kind == Answer::Kind::Error) return on_error(*answer);
  on_ack(answer->number, now, out);
}

void Transfer::tick(Instant now, std::vector<Bytes>& out) {
  if (state_ != TransferState::Running || now < deadline_) return;
  if (sends_ >= kSendsMax) {
    state_ = TransferState::Silent;
    return;
  }
  options_open_ ? send_options(now, out) : send_window(0, now, out);
}

void Transfer::on_ack(std::uint16_t block, Instant now, std::vector<Bytes>& out) {
  if (options_open_) {
    if (block != 0) return;
    options_open_ = false;
    if (sends_ == 1) round_trip_ = now - sent_at_;
    sends_ = 0;
    return send_window(0, now, out);
  }
  const std::uint64_t ahead = static_cast<std::uint16_t>(block - static_cast<std::uint16_t>(acknowledged_));
  if (ahead > in_flight_) return; // an old one
  if (ahead == 0) return hurry(now);
  if (sends_ == 1) round_trip_ = round_trip_ == Duration() ? now - sent_at_ : (round_trip_ * 3 + (now - sent_at_)) / 4;
  acknowledged_ += ahead;
  in_flight_ -= ahead;
  hurried_ = false;
  if (acknowledged_ == blocks_) {
    state_ = TransferState::Sent;
    return;
  }
  const bool open = in_flight_ != 0;
  sends_ = 0;
  send_window(in_flight_, now, out);
  if (open) hurry(now);
}

// An ACK that leaves blocks of the window open: the client saw a gap, or merely an old block, and EDK2 says so for each packet
// that it did not expect. Sending them anew at once would double what is still on its way, which makes the client see more old
// blocks, and so on for ever. So they get two round trips to be acknowledged.
void Transfer::hurry(Instant now) {
  if (window_blocks_ == 1 || hurried_) return; // with one block in flight an ACK without news is a copy
  hurried_ = true;
  deadline_ = std::min(deadline_, now + std::clamp<Duration>(2 * round_trip_, kHurryMin, kHurryMax));
}

void Transfer::on_error(const Answer& answer) {
  client_error_ = answer.text.empty() ? "error " + std::to_string(answer.number) : answer.text;
  state_ = options_open_ && asked_.size ? TransferState::Probed : TransferState::Aborted;
}

// All blocks of the window but the first `skipped`.
void Transfer::send_window(std::uint64_t skipped, Instant now, std::vector<Bytes>& out) {
  in_flight_ = std::min<std::uint64_t>(window_blocks_, blocks_ - acknowledged_);
  for (std::uint64_t i = skipped + 1; i <= in_flight_; ++i) out.push_back(block(acknowledged_ + i));
  sent(now);
}

void Transfer::send_options(Instant now, std::vector<Bytes>& out) {
  std::vector<std::pair<std::string, std::uint64_t>> granted;
  if (asked_.size) granted.emplace_back("tsize", file_.size());
  if (asked_.block_bytes) granted.emplace_back("blksize", block_bytes_);
  if (asked_.window_blocks) granted.emplace_back("windowsize", window_blocks_);
  if (asked_.timeout_s) granted.emplace_back("timeout", *asked_.timeout_s); // as asked, or not at all
  out.push_back(option_ack_packet(granted));
  sent(now);
}

void Transfer::sent(Instant now) {
  ++sends_;
  sent_at_ = now;
  arm(now);
}

// The next repeat, unless the window is acknowledged before.
void Transfer::arm(Instant now) {
  const auto doublings = std::clamp(sends_ - 1, 0, 8);
  deadline_ = now + (asked_.timeout_s ? timeout_ : std::min(timeout_ * (1 << doublings), kTimeoutMax));
}

std::uint64_t Transfer::bytes_acknowledged() const { return std::min<std::uint64_t>(acknowledged_ * block_bytes_, file_.size()); }

Bytes Transfer::block(std::uint64_t number) const {
  const std::size_t at = (number - 1) * block_bytes_;
  return data_packet(static_cast<std::uint16_t>(number), file_.subspan(at, std::min(block_bytes_, file_.size() - at)));
}

} // namespace ductl::netboot::tftp
