// Keeps a client that asks for nonsense as fast as it can from filling its owner's log. Pure.
//
// Anybody on the wire can make FileFailed and Trouble events, so no more than kEventsMax of them pass within kWindow; the first
// that is held back passes with a note instead. All other kinds are limited where they arise.
#pragma once

#include "netboot/boot_events.hpp"

namespace ductl::netboot {

class EventLimit {
public:
  static constexpr int kEventsMax = 30;
  static constexpr std::chrono::seconds kWindow{10};

  // False when the event is to be dropped. May add to its text.
  [[nodiscard]] bool admit(BootEvent& event) {
    if (event.kind != BootEventKind::FileFailed && event.kind != BootEventKind::Trouble) return true;
    if (event.when - begun_ >= kWindow) {
      begun_ = event.when;
      count_ = 0;
    }
    ++count_;
    if (count_ == kEventsMax) event.text += " (and more of this kind, which are not told for some seconds)";
    return count_ <= kEventsMax;
  }

private:
  Instant begun_{};
  int count_ = 0;
};

} // namespace ductl::netboot
