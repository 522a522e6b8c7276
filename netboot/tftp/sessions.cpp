#include "netboot/tftp/sessions.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace ductl::netboot::tftp {
namespace {

double seconds_between(Instant a, Instant b) { return std::chrono::duration<double>(b - a).count(); }

constexpr std::size_t kNameShownMax = 80;
std::string shown(const std::string& name) { return printable(name, kNameShownMax); }

} // namespace

Sessions::Sessions(const BootFiles& files, std::vector<BootEvent>& events, Namer who)
    : files_(files), events_(events), who_(std::move(who)) {}

Sessions::Opened Sessions::open(const Peer& peer, ByteView request, std::size_t block_bytes_max, Instant now) {
  const auto refuse = [&](const Refusal& refusal) {
    ++counts_.refused;
    return Opened{std::nullopt, {error_packet(refusal.number, refusal.text)}};
  };
  for (const auto& [id, session] : sessions_)
    if (session.peer == peer) return {}; // its answer was lost; it is sent again when its time comes
  ++counts_.requests;
  const auto parsed = parse_request(request);
  if (!parsed) return parsed.error().text.empty() ? Opened{} : refuse(parsed.error());
  if (const auto full = no_room(peer)) {
    add(BootEventKind::Trouble, peer, shown(parsed->name),
        fmt::format("TFTP: {} has to wait: {}", who_(peer.address), full->text), now);
    return refuse(*full);
  }
  auto file = files_.find(parsed->name);
  if (!file) {
    add(BootEventKind::FileFailed, peer, shown(parsed->name),
        fmt::format("TFTP: {} asks for '{}', which is not served", who_(peer.address), shown(parsed->name)), now);
    return refuse({ErrorNumber::NotFound, "no such file"});
  }
  const Id id = ++last_id_;
  const ByteView bytes = file->bytes();
  auto& session =
      sessions_.emplace(id, Session{peer, parsed->name, std::move(file), Transfer(bytes, parsed->asked, block_bytes_max), now})
          .first->second;
  Opened opened{id, {}};
  session.transfer.begin(now, opened.packets);
  return opened;
}

std::vector<Bytes> Sessions::feed(Id id, ByteView packet, Instant now) {
  std::vector<Bytes> out;
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return out;
  found->second.transfer.feed(packet, now, out);
  settle(id, now);
  return out;
}

std::vector<Bytes> Sessions::tick(Id id, Instant now) {
  std::vector<Bytes> out;
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return out;
  found->second.transfer.tick(now, out);
  settle(id, now);
  return out;
}

void Sessions::fail(Id id, const std::string& why, Instant now) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  ++counts_.failed;
  add(BootEventKind::FileFailed, found->second.peer, found->second.name,
      fmt::format("TFTP: {} to {} ended: {}", found->second.name, who_(found->second.peer.address), why), now);
  sessions_.erase(found);
}

bool Sessions::running(Id id) const { return sessions_.contains(id); }

std::optional<Instant> Sessions::deadline() const {
  std::optional<Instant> first;
  for (const auto& [id, session] : sessions_)
    if (!first || session.transfer.deadline() < *first) first = session.transfer.deadline();
  return first;
}

std::vector<Sessions::Id> Sessions::due(Instant now) const {
  std::vector<Id> ids;
  for (const auto& [id, session] : sessions_)
    if (session.transfer.deadline() <= now) ids.push_back(id);
  return ids;
}

std::optional<Refusal> Sessions::no_room(const Peer& peer) const {
  if (sessions_.size() >= kSessionsMax) return Refusal{ErrorNumber::NotDefined, "too many transfers, try again"};
  const auto own = std::count_if(sessions_.begin(), sessions_.end(), [&](const auto& entry) {
    return entry.second.peer.address == peer.address && entry.second.peer.port_index == peer.port_index;
  });
  if (static_cast<std::size_t>(own) >= kSessionsPerClient)
    return Refusal{ErrorNumber::NotDefined, "too many transfers of one client, try again"};
  return std::nullopt;
}

// Tells what has become of a transfer, and forgets one that has ended.
void Sessions::settle(Id id, Instant now) {
  Session& session = sessions_.at(id);
  const Transfer& transfer = session.transfer;
  if (!session.told && transfer.bytes_acknowledged() != 0) {
    session.told = true;
    add(BootEventKind::FileBegun, session.peer, session.name,
        fmt::format("{} fetches {} by TFTP", who_(session.peer.address), session.name), now);
  }
  const double seconds = seconds_between(session.begun, now);
  const auto failed = [&](const std::string& why) {
    ++counts_.failed;
    add(BootEventKind::FileFailed, session.peer, session.name,
        fmt::format("TFTP: {} to {} ended after {} of {} bytes: {}", session.name, who_(session.peer.address),
                    transfer.bytes_acknowledged(), session.file->bytes().size(), why),
        now);
  };
  switch (transfer.state()) {
  case TransferState::Running: return;
  case TransferState::Probed: ++counts_.probes; break;
  case TransferState::Sent:
    ++counts_.sent;
    add(BootEventKind::FileSent, session.peer, session.name,
        fmt::format("{} has {} ({} bytes by TFTP in {:.1f} s)", who_(session.peer.address), session.name,
                    session.file->bytes().size(), seconds),
        now);
    break;
  case TransferState::Aborted: failed("the client said \"" + transfer.client_error() + "\""); break;
  case TransferState::Silent: failed("the client answers no more"); break;
  }
  sessions_.erase(id);
}

void Sessions::add(BootEventKind kind, const Peer& peer, const std::string& name, std::string text, Instant now) {
  events_.push_back({.kind = kind,
                     .when = now,
                     .port_index = peer.port_index,
                     .duck_index = -1,
                     .mac = {},
                     .address = peer.address,
                     .file = name,
                     .text = std::move(text)});
}

} // namespace ductl::netboot::tftp
