// The Response of one request: what a handler says, as bytes in the connection's outbox. Handler's thread.
#pragma once

#include "netboot/http/answer_head.hpp"
#include "netboot/http/outbox.hpp"

namespace ductl::http {

class Answer final : public Response {
public:
  // `kick` tells the network thread that the outbox holds something. The outbox must outlive this.
  Answer(Outbox& outbox, const AnswerForm& form, std::function<void()> kick)
      : outbox_(outbox), form_(form), kick_(std::move(kick)) {}

  void send(int status, std::string_view content_type, std::string body, const Headers& extra = {}) override;
  void begin_stream(int status, std::string_view content_type, const Headers& extra = {}) override;
  bool write(std::string_view chunk) override;
  [[nodiscard]] bool peer_gone() override { return outbox_.gone(); }

  // After the handler: ends a stream, makes up for a missing answer. True when the connection may serve another request.
  [[nodiscard]] bool finish(bool failed);

private:
  void put(std::string text);

  Outbox& outbox_;
  const AnswerForm form_;
  const std::function<void()> kick_;
  bool begun_ = false, whole_ = false, streaming_ = false;
};

} // namespace ductl::http
