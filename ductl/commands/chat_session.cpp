#include "ductl/commands/chat_session.hpp"

#include "ductl/view/format.hpp"

#include <fmt/format.h>

namespace ductl::commands {

ChatCommand parse_chat_command(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return ChatCommand::Empty;
  line = line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
  if (line.front() != '/') return ChatCommand::None;
  if (line == "/reset") return ChatCommand::Reset;
  if (line == "/stats") return ChatCommand::Stats;
  if (line == "/help") return ChatCommand::Help;
  if (line == "/quit" || line == "/exit") return ChatCommand::Quit;
  // "/usr/bin is full" is a message; "/sats" is a slip.
  return line.find_first_of(" /", 1) == std::string_view::npos ? ChatCommand::Unknown : ChatCommand::None;
}

std::string chat_help() {
  return "/reset  begin a new conversation\n"
         "/stats  what the last answer cost\n"
         "/help   this\n"
         "/quit   end (or Ctrl-D)\n"
         "Ctrl-C stops the answer; the arrow keys edit and bring back earlier lines.\n";
}

ChatSession::ChatSession(std::string system, ChatSampling sampling) : system_(std::move(system)), sampling_(sampling) { reset(); }

void ChatSession::reset() {
  messages_.clear();
  if (!system_.empty()) messages_.push_back({"system", system_});
}

ChatRequest ChatSession::request(const std::string& message) const {
  ChatRequest request{messages_, sampling_, false};
  request.messages.push_back({"user", message});
  return request;
}

void ChatSession::take(const std::string& message, const Answer& answer) {
  if (!answer.stats_line.empty()) last_stats_ = answer.stats_line;
  output_tokens_ += answer.output_tokens;
  if (answer.text.empty()) return;
  ++answers_;
  messages_.push_back({"user", message});
  messages_.push_back({"assistant", answer.text});
}

std::string ChatSession::stats_text() const {
  if (last_stats_.empty()) return "no answer has been counted yet";
  return fmt::format("last answer: {}\nthis chat: {}, {} written", last_stats_,
                     view::plural(static_cast<std::uint64_t>(answers_), "answer"),
                     view::plural(static_cast<std::uint64_t>(output_tokens_), "token"));
}

} // namespace ductl::commands
