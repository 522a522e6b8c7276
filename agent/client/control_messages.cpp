#include "agent/client/control_messages.hpp"

#include "agent/client/message_fields.hpp"
#include "weights/limits.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <limits>
#include <optional>

namespace ductl::agent {

namespace {

using nlohmann::json;

json ids_json(std::span<const weights::SliceId> ids) {
  json list = json::array();
  for (const weights::SliceId& id : ids) list.push_back({id.layer, id.expert, id.index});
  return list;
}

void take_ids(Fields& fields, std::vector<weights::SliceId>& ids) {
  const json* list = fields.take_array("slices");
  if (!list) return;
  ids.reserve(list->size());
  for (const json& item : *list) {
    std::optional<std::uint16_t> number[3];
    for (std::size_t i = 0; item.is_array() && item.size() == 3 && i < 3; ++i)
      number[i] = integer<std::uint16_t>(item[i], 0, 65535);
    if (!number[0] || !number[1] || !number[2]) return fields.note("'slices' must hold [layer, expert, index]");
    ids.push_back({*number[0], *number[1], *number[2]});
  }
}

} // namespace

std::string model_text(const StoreModel& model) {
  return json{{"model_id", model.model_id}, {"hidden", model.hidden}, {"exponent", model.exponent}, {"experts", model.experts}}
      .dump();
}

Expected<StoreModel> parse_model(std::string_view text) {
  const auto object = parse_object(text);
  if (!object) return tl::unexpected(object.error());
  StoreModel model;
  Fields fields(*object);
  fields.take("model_id", model.model_id, 256);
  fields.take("hidden", model.hidden, 32, weights::kHiddenMax);
  if (model.hidden % 32 != 0) fields.note("'hidden' must be a multiple of 32");
  if (model.model_id.empty()) fields.note("'model_id' is empty");
  if (const json* experts = fields.take_array("experts")) {
    for (const json& item : *experts) {
      const auto count = integer<int>(item, 1, 65536);
      if (!count) fields.note("'experts' must hold integers of 1..65536");
      model.experts.push_back(count.value_or(1));
    }
  }
  const std::size_t blocks = (static_cast<std::size_t>(model.hidden) + 127) / 128;
  if (const json* layers = fields.take_array("exponent")) {
    for (const json& layer : *layers) {
      auto& out = model.exponent.emplace_back();
      if (!layer.is_array() || layer.size() != blocks) {
        fields.note(fmt::format("'exponent' must hold {} integers a layer", blocks));
        break;
      }
      for (const json& item : layer) { // 2^exponent must be a normal float
        const auto exponent = integer<std::int16_t>(item, -126, 127);
        if (!exponent) fields.note("'exponent' must hold integers of -126..127");
        out.push_back(exponent.value_or(0));
      }
    }
  }
  if (model.experts.empty() || model.experts.size() > weights::kLayersMax || model.experts.size() != model.exponent.size())
    fields.note(fmt::format("'experts' and 'exponent' must have one entry a layer, for 1..{} layers", weights::kLayersMax));
  return result(fields, std::move(model));
}

std::string ids_text(std::span<const weights::SliceId> ids) { return json{{"slices", ids_json(ids)}}.dump(); }

Expected<std::vector<weights::SliceId>> parse_ids(std::string_view text) {
  const auto object = parse_object(text);
  if (!object) return tl::unexpected(object.error());
  std::vector<weights::SliceId> ids;
  Fields fields(*object);
  take_ids(fields, ids);
  return result(fields, std::move(ids));
}

std::string epoch_text(std::uint32_t epoch, std::span<const weights::SliceId> ids) {
  return json{{"epoch", epoch}, {"slices", ids_json(ids)}}.dump();
}

Expected<EpochMessage> parse_epoch(std::string_view text) {
  const auto object = parse_object(text);
  if (!object) return tl::unexpected(object.error());
  EpochMessage message;
  Fields fields(*object);
  fields.take<std::uint32_t>("epoch", message.epoch, 1);
  take_ids(fields, message.ids);
  return result(fields, std::move(message));
}

std::string session_text(const SessionMessage& session) {
  return json{
      {"tag", hex64_text(session.tag)}, {"epoch", session.epoch}, {"duck", session.duck}, {"bf16_hidden", session.bf16_hidden}}
      .dump();
}

Expected<SessionMessage> parse_session(std::string_view text) {
  const auto object = parse_object(text);
  if (!object) return tl::unexpected(object.error());
  SessionMessage session;
  Fields fields(*object);
  fields.take_hex("tag", session.tag);
  fields.take<std::uint32_t>("epoch", session.epoch, 1);
  fields.take<std::uint16_t>("duck", session.duck);
  fields.take("bf16_hidden", session.bf16_hidden);
  if (session.tag == 0) fields.note("'tag' must not be zero");
  return result(fields, session);
}

std::string hello_text(const Hello& hello) {
  return json{{"protocol", hello.protocol},
              {"name", hello.name},
              {"flock", hello.flock},
              {"version", hello.version},
              {"boot_id", hello.boot_id},
              {"pid", hello.pid},
              {"memory_bytes", hello.memory_bytes},
              {"memory_available_bytes", hello.memory_available_bytes},
              {"cores", hello.cores},
              {"kernels", hello.kernels},
              {"model_id", hello.model_id},
              {"epoch", hello.epoch},
              {"slices_held", hello.slices_held},
              {"slices_active", hello.slices_active},
              {"slice_bytes", hello.slice_bytes},
              {"session_tag", hex64_text(hello.session_tag)},
              {"data_port", hello.data_port},
              {"uptime_ms", hello.uptime_ms},
              {"adopted", hello.adopted},
              {"mac", hello.mac},
              {"image", hello.image}}
      .dump();
}

Expected<Hello> parse_hello(std::string_view text) {
  const auto object = parse_object(text);
  if (!object) return tl::unexpected(object.error());
  Hello hello;
  Fields fields(*object);
  fields.take<int>("protocol", hello.protocol);
  fields.take("version", hello.version);
  if (fields.error()) return bad(*fields.error());
  if (hello.protocol != kControlProtocol)
    return fail(ErrorCode::kAgentVersion, fmt::format("agent {} speaks control protocol {}, this program {}", hello.version,
                                                      hello.protocol, kControlProtocol));
  fields.take("name", hello.name);
  fields.take("flock", hello.flock);
  fields.take("boot_id", hello.boot_id);
  fields.take<int>("pid", hello.pid);
  fields.take<std::uint64_t>("memory_bytes", hello.memory_bytes);
  fields.take<std::uint64_t>("memory_available_bytes", hello.memory_available_bytes);
  fields.take<int>("cores", hello.cores);
  fields.take("kernels", hello.kernels);
  fields.take("model_id", hello.model_id);
  fields.take<std::uint32_t>("epoch", hello.epoch);
  fields.take<std::uint64_t>("slices_held", hello.slices_held);
  fields.take<std::uint64_t>("slices_active", hello.slices_active);
  fields.take<std::uint64_t>("slice_bytes", hello.slice_bytes);
  fields.take_hex("session_tag", hello.session_tag);
  fields.take<std::uint16_t>("data_port", hello.data_port);
  fields.take<std::uint64_t>("uptime_ms", hello.uptime_ms);
  if (object->contains("adopted")) { // agents that are older than netbooted ducks say none of it
    fields.take("adopted", hello.adopted);
    fields.take("mac", hello.mac, 17);
    fields.take("image", hello.image, 64);
  }
  return result(fields, std::move(hello));
}

namespace {

// One list of names, for both directions.
template <class Stats, class Visit> void visit_stats(Stats& stats, const Visit& visit) {
  visit("rounds", stats.rounds);
  visit("slices", stats.slices);
  visit("frames_in", stats.frames_in);
  visit("frames_out", stats.frames_out);
  visit("frames_dropped", stats.frames_dropped);
  visit("frames_corrupt", stats.frames_corrupt);
  visit("frames_foreign", stats.frames_foreign);
  visit("nacks_sent", stats.nacks_sent);
  visit("nacks_received", stats.nacks_received);
  visit("refusals", stats.refusals);
  visit("compute_ns", stats.compute_ns);
}

} // namespace

std::string stats_text(const AgentStats& stats) {
  json object = json::object();
  visit_stats(stats, [&](const char* name, std::uint64_t value) { object[name] = value; });
  return object.dump();
}

Expected<AgentStats> parse_stats(std::string_view text) {
  const auto object = parse_object(text);
  if (!object) return tl::unexpected(object.error());
  AgentStats stats;
  Fields fields(*object);
  visit_stats(stats, [&](const char* name, std::uint64_t& value) { fields.take<std::uint64_t>(name, value); });
  return result(fields, stats);
}

std::string digests_text(std::span<const weights::SliceDigest> digests) {
  json list = json::array();
  for (const weights::SliceDigest digest : digests) list.push_back(hex64_text(digest));
  return json{{"digests", std::move(list)}}.dump();
}

Expected<std::vector<weights::SliceDigest>> parse_digests(std::string_view text) {
  const auto object = parse_object(text);
  if (!object) return tl::unexpected(object.error());
  std::vector<weights::SliceDigest> digests;
  Fields fields(*object);
  if (const json* list = fields.take_array("digests")) {
    for (const json& item : *list) {
      const auto digest = hex64(item);
      if (!digest) fields.note("'digests' must hold texts of 16 hex digits");
      digests.push_back(digest.value_or(0));
    }
  }
  return result(fields, std::move(digests));
}

std::string held_text(std::span<const weights::HeldSlice> slices) {
  json list = json::array();
  for (const weights::HeldSlice& slice : slices) list.push_back({slice.id.expert, slice.id.index, hex64_text(slice.digest)});
  return json{{"slices", std::move(list)}}.dump();
}

Expected<std::vector<weights::HeldSlice>> parse_held(std::string_view text, int layer) {
  const auto object = parse_object(text);
  if (!object) return tl::unexpected(object.error());
  std::vector<weights::HeldSlice> slices;
  Fields fields(*object);
  if (const json* list = fields.take_array("slices")) {
    for (const json& item : *list) {
      if (!item.is_array() || item.size() != 3) return bad("'slices' must hold [expert, index, digest]");
      const auto expert = integer<std::uint16_t>(item[0], 0, 65535), index = integer<std::uint16_t>(item[1], 0, 65535);
      const auto digest = hex64(item[2]);
      if (!expert || !index || !digest) return bad("'slices' must hold [expert, index, digest]");
      slices.push_back({{static_cast<std::uint16_t>(layer), *expert, *index}, *digest});
    }
  }
  return result(fields, std::move(slices));
}

namespace {

json error_json(const Error& error) {
  return {{"code", error.code_name()}, {"message", error.message}, {"place", error.place}, {"next", error.next}};
}

// Error texts may quote bytes that came from outside.
std::string dump_any_bytes(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

} // namespace

std::string error_text(const Error& error) { return dump_any_bytes(json{{"error", error_json(error)}}); }

Expected<Error> parse_error(std::string_view text) {
  const auto object = parse_object(text);
  if (!object) return tl::unexpected(object.error());
  const auto found = object->find("error");
  if (found == object->end() || !found->is_object()) return bad("'error' is missing");
  Error error;
  const auto take = [&](const char* name) {
    const auto field = found->find(name);
    return field != found->end() && field->is_string() ? field->get<std::string>() : std::string();
  };
  const std::string code = take("code");
  int number = 0;
  if (code.size() == 5 && code[0] == 'D') std::from_chars(code.data() + 1, code.data() + 5, number);
  error.code = number == static_cast<int>(ErrorCode::kAgentVersion) ? ErrorCode::kAgentVersion : ErrorCode::kAgentRefused;
  error.message = take("message");
  error.place = take("place");
  error.next = take("next");
  if (error.message.empty()) return bad("'message' is missing");
  return error;
}

std::string ready_text(std::uint16_t control_port, std::uint16_t data_port, int pid) {
  return json{{"ready", true}, {"control_port", control_port}, {"data_port", data_port}, {"pid", pid}}.dump() + "\n";
}

std::string not_ready_text(const Error& error) {
  return dump_any_bytes(json{{"ready", false}, {"error", error_json(error)}}) + "\n";
}

} // namespace ductl::agent
