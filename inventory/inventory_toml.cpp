// The schema of the inventory file: which keys there are, of what type and range. docs/inventory.md says the same for people.
#include "inventory/draft.hpp"
#include "inventory/hostlist.hpp"
#include "inventory/spelling.hpp"
#include "inventory/toml_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <iterator>

namespace ductl::inventory {
namespace {

template <class E, std::size_t N> using Names = std::array<std::pair<const char*, E>, N>;
constexpr Names<Fanout, 2> kFanouts{{{"unicast", Fanout::Unicast}, {"broadcast", Fanout::Broadcast}}};
constexpr Names<PowerKind, 3> kPowerKinds{
    {{"process", PowerKind::Process}, {"wake-on-lan", PowerKind::WakeOnLan}, {"exec", PowerKind::Exec}}};
constexpr Names<TransportKind, 2> kTransports{{{"udp", TransportKind::Udp}, {"dpdk", TransportKind::Dpdk}}};
constexpr Names<AttentionKind, 3> kAttentions{
    {{"auto", AttentionKind::Auto}, {"cpu", AttentionKind::Cpu}, {"cuda", AttentionKind::Cuda}}};
constexpr Names<HiddenType, 2> kHiddens{{{"f32", HiddenType::F32}, {"bf16", HiddenType::Bf16}}};
constexpr Names<ReplyType, 2> kReplies{{{"exact", ReplyType::Exact}, {"compact", ReplyType::Compact}}};
constexpr Names<IndexKeys, 2> kIndexKeys{{{"f32", IndexKeys::F32}, {"fp8", IndexKeys::Fp8}}};
constexpr Names<SpeculationKind, 2> kSpeculations{{{"mtp", SpeculationKind::Mtp}, {"off", SpeculationKind::Off}}};

constexpr std::int64_t kContextMax = 1 << 20;
const std::vector<std::string> kChains{"auto", "ipxe", "uki", "http"};

void read_word(TableReader& reader, const std::string& key, const std::vector<std::string>& words, std::string& into) {
  std::size_t index = 0;
  if (reader.one_of(key, words, index)) into = words[index];
}

void read_label(TableReader& reader, const std::string& key, std::string& into) {
  if (!reader.text(key, into) || is_label(into)) return;
  reader.fault(key, fmt::format("the name \"{}\" cannot be used", into), "1 to 63 of a-z, 0-9 and -");
}

void read_port(TableReader& reader, Draft& draft) {
  Port port;
  reader.require("name", "name = \"port1\"");
  read_label(reader, "name", port.name);
  reader.require("interface", "interface = \"lo\"");
  if (reader.text("interface", port.interface) && (port.interface.empty() || port.interface.size() > 15))
    reader.fault("interface", "not the name of a network interface", "1 to 15 characters", "`ip -br link` lists them");
  reader.require("address", "address = \"127.21.1.1/24\"");
  std::string text;
  if (reader.text("address", text)) {
    const std::size_t slash = text.find('/');
    const std::string digits = slash == std::string::npos ? "" : text.substr(slash + 1);
    int prefix = 0;
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), prefix);
    const bool prefix_good = status == std::errc{} && end == digits.data() + digits.size() && prefix >= 8 && prefix <= 30;
    const auto address = parse_ipv4(std::string_view(text).substr(0, slash));
    if (address && prefix_good) {
      port.address = *address, port.prefix_length = prefix;
    } else {
      reader.fault("address", fmt::format("\"{}\" is not an address with its prefix length", text),
                   address ? "the prefix length is 8 to 30" : "four numbers from 0 to 255, then / and the prefix length",
                   "the host's own address on this port, for instance \"10.21.1.1/24\"");
    }
  }
  reader.choice("fanout", kFanouts, port.fanout);
  draft.flock.ports.push_back(port);
  draft.port_marks.push_back({reader.mark("name"), reader.mark("interface"), reader.mark("address"), reader.mark("fanout")});
  reader.finish();
}

// What [[duck]] and [[ducks]] share: everything but name, address and MAC.
Duck read_common(TableReader& reader, const Draft& draft, bool& port_known) {
  Duck duck;
  const std::vector<Port>& ports = draft.flock.ports;
  std::string port;
  port_known = false;
  if (!reader.text("port", port)) {
    port_known = ports.size() == 1 && !reader.has("port");
    if (ports.size() > 1) reader.require("port", fmt::format("port = \"{}\"", ports.front().name));
  } else {
    const auto found = std::find_if(ports.begin(), ports.end(), [&](const Port& p) { return p.name == port; });
    port_known = found != ports.end();
    if (port_known) {
      duck.port_index = static_cast<int>(found - ports.begin());
    } else {
      std::vector<std::string> names;
      for (const Port& p : ports) names.push_back(p.name);
      const std::string near = nearest_word(port, names);
      reader.fault("port", fmt::format("there is no port \"{}\"", port),
                   near.empty() ? "" : fmt::format("did you mean {}?", near),
                   names.empty() ? "describe it as [[port]]" : fmt::format("the ports are {}", fmt::join(names, ", ")));
    }
  }
  double memory_gib = 0;
  constexpr double kGib = 1073741824.0;
  if (reader.number("memory_gib", 0.0625, 4096, memory_gib))
    duck.memory_bytes = static_cast<std::uint64_t>(std::llround(memory_gib * kGib));
  reader.integer("cores", 1, 1024, duck.cores);
  reader.integer("link_mbps", 10, 400000, duck.link_mbps);
  read_word(reader, "chain", kChains, duck.chain);
  read_word(reader, "proxy_style", {"bypass", "4011"}, duck.proxy_style);
  return duck;
}

std::optional<Mac> checked_mac(const MarkedText& given, FaultLog& faults) {
  const auto mac = parse_mac(given.text);
  std::string_view label;
  if (!mac)
    label = "six pairs of hexadecimal digits with : between";
  else if (((*mac)[0] & 1) != 0)
    label = "this is a multicast address";
  else if (*mac == Mac{})
    label = "all zeros";
  if (label.empty()) return mac;
  faults.add(ErrorCode::kInventoryValue, given.mark, fmt::format("\"{}\" is not the MAC address of a network card", given.text),
             label, "it stands on the machine's label and in its firmware's boot menu, for instance 00:e0:4c:68:00:07");
  return std::nullopt;
}

std::optional<Ipv4> checked_address(const std::string& text, const Mark& mark, FaultLog& faults) {
  const auto address = parse_ipv4(text);
  if (!address)
    faults.add(ErrorCode::kInventoryValue, mark, fmt::format("\"{}\" is not an IPv4 address", text),
               "four numbers from 0 to 255 with . between", "for instance \"10.21.1.101\"");
  return address;
}

void read_duck(TableReader& reader, Draft& draft, FaultLog& faults) {
  DuckMarks marks;
  Duck duck = read_common(reader, draft, marks.port_known);
  reader.require("name", "name = \"duck01\"");
  read_label(reader, "name", duck.name);
  reader.require("address", "address = \"10.21.1.101\"");
  std::string text;
  if (reader.text("address", text)) {
    const auto address = checked_address(text, reader.mark("address"), faults);
    marks.address_known = address.has_value();
    duck.address = address.value_or(0);
  }
  if (reader.text("mac", text)) duck.mac = checked_mac({text, reader.mark("mac")}, faults);
  marks.name = reader.mark("name"), marks.address = reader.mark("address"), marks.mac = reader.mark("mac");
  reader.finish();
  draft.flock.ducks.push_back(std::move(duck));
  draft.duck_marks.push_back(std::move(marks));
}

// A range's list: one string with a bracket, or an array of strings (each of which may have one).
std::vector<MarkedText> read_list(TableReader& reader, const std::string& key, FaultLog& faults) {
  std::vector<MarkedText> given, words;
  reader.texts(key, given);
  for (const MarkedText& entry : given) {
    const auto expanded = expand_hostlist(entry.text);
    if (!expanded) {
      faults.add(ErrorCode::kInventoryValue, entry.mark, expanded.error(), {},
                 "a range looks like duck[01-08] or 10.21.1.[101-108]");
      continue;
    }
    for (const std::string& word : *expanded) words.push_back({word, entry.mark});
  }
  return words;
}

Mac counted_up(Mac mac, std::size_t steps) {
  for (std::size_t i = mac.size(); i-- > 3;) { // the maker's three bytes stay
    steps += mac[i];
    mac[i] = static_cast<std::uint8_t>(steps & 255);
    steps >>= 8;
  }
  return mac;
}

// The MACs of a range: `mac`, a list, or `mac_first`, from which the others count up.
std::vector<std::optional<Mac>> read_macs(TableReader& reader, std::size_t count, FaultLog& faults) {
  std::vector<std::optional<Mac>> macs(count);
  std::vector<MarkedText> given;
  if (reader.texts("mac", given)) {
    if (given.size() != count)
      reader.fault("mac", fmt::format("{} MAC addresses for {} ducks", given.size(), count), "one for each name",
                   "ranges whose addresses count up say mac_first = \"...\" instead");
    for (std::size_t i = 0; i < given.size(); ++i) {
      const auto mac = checked_mac(given[i], faults);
      if (i < count) macs[i] = mac;
    }
  }
  std::string first;
  if (!reader.text("mac_first", first)) return macs;
  if (!given.empty()) reader.fault("mac_first", "mac and mac_first are both given", "use one of them");
  const auto mac = checked_mac({first, reader.mark("mac_first")}, faults);
  for (std::size_t i = 0; mac && i < count; ++i) macs[i] = counted_up(*mac, i);
  return macs;
}

void read_ducks(TableReader& reader, Draft& draft, FaultLog& faults) {
  DuckMarks marks;
  const Duck common = read_common(reader, draft, marks.port_known);
  reader.require("name", "name = \"duck[01-08]\"");
  reader.require("address", "address = \"10.21.1.[101-108]\"");
  const std::vector<MarkedText> names = read_list(reader, "name", faults);
  const std::vector<MarkedText> addresses = read_list(reader, "address", faults);
  if (!names.empty() && !addresses.empty() && names.size() != addresses.size())
    reader.fault("address", fmt::format("{} addresses for {} names", addresses.size(), names.size()), "one for each name");
  const std::vector<std::optional<Mac>> macs = read_macs(reader, names.size(), faults);
  marks.mac = reader.mark(reader.has("mac") ? "mac" : "mac_first");
  for (std::size_t i = 0; i < names.size(); ++i) {
    Duck duck = common;
    duck.name = names[i].text;
    marks.name = names[i].mark;
    if (!is_label(duck.name)) {
      faults.add(ErrorCode::kInventoryValue, marks.name, fmt::format("the name \"{}\" cannot be used", duck.name),
                 "1 to 63 of a-z, 0-9 and -");
      duck.name.clear();
    }
    marks.address_known = false;
    marks.address = i < addresses.size() ? addresses[i].mark : reader.mark("address");
    if (i < addresses.size()) {
      const auto address = checked_address(addresses[i].text, marks.address, faults);
      marks.address_known = address.has_value();
      duck.address = address.value_or(0);
    }
    duck.mac = macs[i];
    draft.flock.ducks.push_back(std::move(duck));
    draft.duck_marks.push_back(marks);
  }
  reader.finish();
}

void read_power(TableReader& reader, Power& power) {
  reader.choice("driver", kPowerKinds, power.kind);
  reader.integer("max_booting", 1, kDucksMax, power.max_booting);
  for (const auto& [key, command] : {std::pair{"on_command", &power.on_command}, std::pair{"off_command", &power.off_command}}) {
    const bool given = reader.text(key, *command);
    if (given && power.kind != PowerKind::Exec)
      reader.fault(key, fmt::format("power.{} is of no use here", key), "only the driver \"exec\" runs it",
                   "set driver = \"exec\", or take the line out");
    if (power.kind == PowerKind::Exec)
      reader.require(key, fmt::format("{} = \"/usr/local/bin/pdu {} {{name}}\"", key,
                                      std::string_view(key).substr(0, std::string_view(key).find('_'))));
    if (given && command->empty()) reader.fault(key, fmt::format("power.{} is empty", key));
  }
  reader.finish();
}

void read_engine(TableReader& reader, Engine& engine) {
  reader.choice("attention", kAttentions, engine.attention);
  reader.choice("transport", kTransports, engine.transport);
  reader.choice("hidden", kHiddens, engine.hidden);
  reader.choice("reply", kReplies, engine.reply);
  reader.choice("index_keys", kIndexKeys, engine.index_keys);
  reader.choice("speculation", kSpeculations, engine.speculation);
  reader.integer("context_length", 0, kContextMax, engine.context_length);
  reader.integer("threads", 0, 1024, engine.threads);
  std::string text;
  if (reader.text("api_address", text)) {
    if (const auto address = parse_ipv4(text))
      engine.api_address = *address;
    else
      reader.fault("api_address", fmt::format("\"{}\" is not an IPv4 address", text), "four numbers from 0 to 255 with . between",
                   "\"127.0.0.1\" for this machine only, \"0.0.0.0\" for every network of it");
  }
  reader.integer("api_port", 1, 65535, engine.api_port);
  reader.finish();
}

void read_model(TableReader& reader, Model& model) {
  reader.require("source", "source = \"deepseek-ai/DeepSeek-V3.2\"");
  if (reader.text("source", model.source) && model.source.empty())
    reader.fault("source", "model.source is empty", {}, "name a folder with safetensors, or org/name in the Hugging Face cache");
  reader.text("chat_format", model.chat_format);
  read_word(reader, "format", {"auto", "fp9", "e4m3"}, model.format);
  reader.finish();
}

void read_netboot(TableReader& reader, Draft& draft) {
  Netboot& netboot = draft.flock.netboot;
  draft.netboot_mark = reader.mark("enabled");
  reader.boolean("enabled", netboot.enabled);
  read_word(reader, "chain", kChains, netboot.chain);
  reader.boolean("proxy_dhcp", netboot.proxy_dhcp);
  reader.integer("http_port", 1, 65535, netboot.http_port);
  if (reader.text("image", netboot.image) && netboot.image.empty())
    reader.fault("image", "netboot.image is empty", {}, "name the folder that holds manifest.json, or take the line out");
  reader.finish();
}

void read_small_sections(TableReader& root, Flock& flock) {
  if (auto reader = root.section("agent")) {
    reader->integer("control_port", 1, 65535, flock.agent_ports.control);
    reader->integer("data_port", 1, 65535, flock.agent_ports.data);
    reader->integer("threads", 0, 64, flock.agent_threads);
    reader->finish();
  }
  if (auto reader = root.section("limits")) {
    reader->integer("dead_after_ms", 10, 600000, flock.limits.dead_after_ms);
    reader->integer("boot_timeout_s", 1, 3600, flock.limits.boot_timeout_s);
    reader->integer("control_timeout_ms", 10, 600000, flock.limits.control_timeout_ms);
    reader->integer("request_tokens_max", 0, kContextMax, flock.limits.request_tokens_max);
    reader->finish();
  }
}

void read_flock(TableReader& root, Draft& draft, FaultLog& faults) {
  root.require("flock", "[flock]");
  if (auto reader = root.section("flock")) {
    reader->require("name", "name = \"home\"");
    read_label(*reader, "name", draft.flock.name);
    reader->finish();
  }
  root.require("port", "[[port]]");
  for (TableReader& reader : root.sections("port")) read_port(reader, draft);
  if (!root.has("duck") && !root.has("ducks")) root.require("ducks", "[[ducks]]");
  // Ducks count in the file's order, whichever of the two forms they have.
  std::vector<std::pair<TableReader, bool>> entries; // true = a range
  for (TableReader& reader : root.sections("ducks")) entries.emplace_back(reader, true);
  for (TableReader& reader : root.sections("duck")) entries.emplace_back(reader, false);
  for (const char* key : {"duck", "ducks"}) // `duck = []`
    if (entries.empty() && faults.empty() && root.has(key))
      root.fault(key, "a flock needs a duck", {}, "describe one as [[duck]], or several as [[ducks]]");
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first.mark("").line < b.first.mark("").line; });
  for (auto& [reader, is_range] : entries) is_range ? read_ducks(reader, draft, faults) : read_duck(reader, draft, faults);
  if (auto reader = root.section("power")) {
    draft.power_mark = reader->mark("driver");
    read_power(*reader, draft.flock.power);
  }
  root.require("model", "[model]");
  if (auto reader = root.section("model")) read_model(*reader, draft.flock.model);
  if (auto reader = root.section("engine")) read_engine(*reader, draft.flock.engine);
  if (auto reader = root.section("netboot")) read_netboot(*reader, draft);
  read_small_sections(root, draft.flock);
  root.finish();
}

} // namespace

tl::expected<Flock, Faults> parse_inventory(std::string_view text, const std::string& name) {
  FaultLog faults(name);
  Draft draft;
  if (const auto document = parse_toml(text, name, faults)) {
    TableReader root(*document, "", faults);
    read_flock(root, draft, faults);
    check_flock(draft, faults);
  }
  if (!faults.empty()) return tl::unexpected(faults.take());
  return std::move(draft.flock);
}

tl::expected<Flock, Faults> load_inventory(const std::filesystem::path& file) {
  const auto refuse = [&](std::string why) {
    Faults faults;
    faults.errors.push_back({ErrorCode::kInventoryFile,
                             std::move(why),
                             file.string(),
                             "give another file with -i, or write one: docs/inventory.md",
                             {}});
    return tl::unexpected(std::move(faults));
  };
  std::error_code status;
  if (!std::filesystem::exists(file, status)) return refuse("there is no such file");
  if (std::filesystem::is_directory(file, status)) return refuse("this is a folder, not a file");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return refuse("the file cannot be read");
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  auto flock = parse_inventory(text, file.string());
  if (flock) flock->file = std::filesystem::absolute(file, status).lexically_normal();
  return flock;
}

} // namespace ductl::inventory
