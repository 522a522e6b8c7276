// What a person reads: whole texts, and every kind of fault once.
#include "sample.hpp"

#include <gmock/gmock.h>

namespace ductl::inventory {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(InventoryFaults, AnUnknownKeyNamesTheNearestOne) {
  EXPECT_EQ(fault_of(plus("[engine]\n  contxt_length = 4096 # tokens\n")).text(),
            "error[D0101]: unknown key contxt_length in engine\n"
            "  --> flock.toml:22:3\n"
            "   |\n"
            "22 |   contxt_length = 4096 # tokens\n"
            "   |   ^^^^^^^^^^^^^ did you mean context_length?\n"
            "help: the keys known here are attention, transport, hidden, reply, index_keys, speculation, context_length, "
            "threads, api_address, api_port");
}

TEST(InventoryFaults, ADuplicateMacNamesTheOtherLine) {
  const std::string text =
      plus("[[duck]]\nport = \"port1\"\nname = \"a\"\naddress = \"127.21.1.120\"\nmac = \"00:e0:4c:68:00:07\"\n"
           "[[duck]]\nport = \"port1\"\nname = \"b\"\naddress = \"127.21.1.121\"\nmac = \"00:E0:4C:68:00:07\"\n");
  EXPECT_EQ(fault_of(text).text(), "error[D0102]: duplicate MAC address 00:e0:4c:68:00:07 of b\n"
                                   "  --> flock.toml:30:7\n"
                                   "   |\n"
                                   "30 | mac = \"00:E0:4C:68:00:07\"\n"
                                   "   |       ^^^^^^^^^^^^^^^^^^^ also used by a (line 25)\n"
                                   "help: give each its own MAC address");
}

TEST(InventoryFaults, AnAddressOutsideItsSubnetSaysTheRange) {
  EXPECT_EQ(fault_of(with("127.21.1.110", "127.21.2.110")).text(),
            "error[D0101]: 127.21.2.110 of extra is outside the subnet 127.21.1.0/24 of port1\n"
            "  --> flock.toml:17:11\n"
            "   |\n"
            "17 | address = \"127.21.2.110\"\n"
            "   |           ^^^^^^^^^^^^^^\n"
            "help: use an address from 127.21.1.1 to 127.21.1.254");
}

TEST(InventoryFaults, ASyntaxErrorShowsItsLineAndColumn) {
  EXPECT_EQ(fault_of("[flock]\nname = home\n").text(),
            "error[D0100]: not TOML: bad format: unknown value appeared\n"
            "  --> flock.toml:2:8\n"
            "  |\n"
            "2 | name = home\n"
            "  |        ^\n"
            "help: a text stands in double quotes; the rest of the file is checked once this is mended");
}

TEST(InventoryFaults, AllFaultsOfAFileComeInOnePassInItsOrder) {
  std::string text = with("name = \"test\"", "name = \"Test\"\nnmae = 1");
  text = with("127.21.1.[101-102]", "127.21.1.[101-103]", text);
  text = with("\"127.21.1.110\"", "\"127.21.1.256\"", text);
  text += "[limits]\ndead_after_ms = 5\nboot_timeout_s = 99999999999999999999\n[engine]\nhidden = \"bf-16\"\nthreads = \"two\"\n";
  std::vector<std::string> places;
  for (const Error& fault : faults_of(text)) places.push_back(fault.place);
  EXPECT_THAT(places, ::testing::ElementsAre("flock.toml:2:8", "flock.toml:3:1", "flock.toml:13:11", "flock.toml:18:11",
                                             "flock.toml:23:17", "flock.toml:24:18", "flock.toml:26:10", "flock.toml:27:11"));
}

TEST(InventoryFaults, ANumberBeyond64BitsIsShownAsWritten) {
  EXPECT_THAT(fault_of(plus("[limits]\nboot_timeout_s = 99999999999999999999\n")).message,
              HasSubstr("limits.boot_timeout_s = 99999999999999999999 is out of range"));
}

TEST(InventoryFaults, ManyFaultsAreCutAndCounted) {
  std::string text(kSample);
  for (int i = 0; i < 150; ++i) text += "zz" + std::to_string(i) + " = 1\n";
  const std::vector<Error> faults = faults_of(text);
  ASSERT_EQ(faults.size(), 101u);
  EXPECT_EQ(faults.back().message, "and 50 faults more");
}

TEST(InventoryFaults, TheTextOfAllFaultsEndsWithTheirCount) {
  const auto parsed = parse_inventory(with("\"test\"", "\"T\""), "f");
  ASSERT_FALSE(parsed);
  EXPECT_THAT(parsed.error().text(), ::testing::EndsWith("\n\n1 fault found"));
}

struct Case {
  const char* name;
  std::string text;
  ErrorCode code;
  const char* place;
  const char* message;
};

class EveryFault : public ::testing::TestWithParam<Case> {};

TEST_P(EveryFault, IsFoundAloneWithItsPlace) {
  const Error fault = fault_of(GetParam().text);
  EXPECT_EQ(fault.code, GetParam().code);
  EXPECT_EQ(fault.place, std::string("flock.toml:") + GetParam().place);
  EXPECT_THAT(fault.text(), HasSubstr(GetParam().message));
  EXPECT_FALSE(fault.window.empty());
}

const ErrorCode kValue = ErrorCode::kInventoryValue;
const ErrorCode kDuplicate = ErrorCode::kInventoryDuplicate;
const ErrorCode kFile = ErrorCode::kInventoryFile;
const std::string kPort2 = "[[port]]\nname = \"port2\"\ninterface = \"eth0\"\naddress = \"10.0.0.1/24\"\n";

INSTANTIATE_TEST_SUITE_P(
    Kinds, EveryFault,
    ::testing::Values(
        Case{"flock_name_missing", with("name = \"test\"\n", ""), kValue, "1:1", "flock.name is missing"},
        Case{"flock_missing", with("[flock]\nname = \"test\"\n", ""), kValue, "1:1", "flock is missing"},
        Case{"flock_name_type", with("\"test\"", "3"), kValue, "2:8", "flock.name must be a string"},
        Case{"flock_name_form", with("\"test\"", "\"../x\""), kValue, "2:8", "1 to 63 of a-z, 0-9 and -"},
        Case{"model_missing", with("[model]\nsource = \"some/model\"\n", ""), kValue, "1:1", "model is missing"},
        Case{"model_empty", with("\"some/model\"", "\"\""), kValue, "20:10", "model.source is empty"},
        Case{"model_format", plus("format = \"fp8\"\n"), kValue, "21:10", "did you mean \"fp9\"?"},
        Case{"port_name_duplicate", plus(with("port2", "port1", kPort2)), kDuplicate, "22:8", "duplicate port name port1"},
        Case{"port_prefix_missing", plus(with("/24", "", kPort2)), kValue, "24:11", "the prefix length is 8 to 30"},
        Case{"port_prefix_31", plus(with("/24", "/31", kPort2)), kValue, "24:11", "the prefix length is 8 to 30"},
        Case{"port_address_form", plus(with("10.0.0.1", "10.0.0", kPort2)), kValue, "24:11", "four numbers from 0 to 255"},
        Case{"port_address_network", plus(with("10.0.0.1", "10.0.0.0", kPort2)), kValue, "24:11", "the network address"},
        Case{"port_address_broadcast", plus(with("10.0.0.1", "10.0.0.255", kPort2)), kValue, "24:11", "the broadcast address"},
        Case{"port_overlap", plus(with("10.0.0.1/24", "127.21.0.1/16", kPort2)), kValue, "24:11", "overlaps"},
        Case{"port_interface_long", plus(with("eth0", "an-interface-name", kPort2)), kValue, "23:13", "1 to 15 characters"},
        Case{"port_fanout", plus(kPort2 + "fanout = \"multicast\"\n"), kValue, "25:10", "must be one of unicast, broadcast"},
        Case{"port_fanout_loopback", with("/24\"\n", "/24\"\nfanout = \"broadcast\"\n"), kValue, "8:10",
             "loopback has no broadcast"},
        Case{"port_as_table", plus("[netboot]\nenabled = 1\n"), kValue, "22:11", "true or false"},
        Case{"duck_port_unknown", with("port = \"port1\"\nname = \"extra\"", "port = \"prot1\"\nname = \"extra\""), kValue,
             "15:8", "did you mean port1?"},
        Case{"duck_address_missing", with("address = \"127.21.1.110\"\n", ""), kValue, "14:1", "duck.address is missing"},
        Case{"duck_name_missing", with("name = \"extra\"\n", ""), kValue, "14:1", "duck.name is missing"},
        Case{"duck_name_duplicate", with("\"extra\"", "\"duck02\""), kDuplicate, "16:8", "first used in line 11"},
        Case{"duck_address_duplicate", with("127.21.1.110", "127.21.1.102"), kDuplicate, "17:11",
             "also used by duck02 (line 12)"},
        Case{"duck_address_form", with("127.21.1.110", "127.21.1.0110"), kValue, "17:11", "not an IPv4 address"},
        Case{"duck_address_network", with("127.21.1.110", "127.21.1.0"), kValue, "17:11", "the network address of 127.21.1.0/24"},
        Case{"duck_address_broadcast", with("127.21.1.110", "127.21.1.255"), kValue, "17:11", "the broadcast address"},
        Case{"duck_address_host", with("127.21.1.110", "127.21.1.1"), kValue, "17:11", "the host's own address on port1"},
        Case{"duck_mac_form", with("\"127.21.1.110\"\n", "\"127.21.1.110\"\nmac = \"00:e0:4c:68:00\"\n"), kValue, "18:7",
             "six pairs of hexadecimal digits"},
        Case{"duck_mac_multicast", with("\"127.21.1.110\"\n", "\"127.21.1.110\"\nmac = \"01:e0:4c:68:00:01\"\n"), kValue, "18:7",
             "multicast"},
        Case{"duck_mac_zero", with("\"127.21.1.110\"\n", "\"127.21.1.110\"\nmac = \"00:00:00:00:00:00\"\n"), kValue, "18:7",
             "all zeros"},
        Case{"duck_memory", with("\"127.21.1.110\"\n", "\"127.21.1.110\"\nmemory_gib = 0\n"), kValue, "18:14", "out of range"},
        Case{"duck_memory_unit", with("\"127.21.1.110\"\n", "\"127.21.1.110\"\nmemory = 32\n"), kValue, "18:1",
             "did you mean memory_gib?"},
        Case{"duck_cores", with("\"127.21.1.110\"\n", "\"127.21.1.110\"\ncores = 4.5\n"), kValue, "18:9",
             "this is a number with a fraction"},
        Case{"range_counts", with("[101-102]", "[101-104]"), kValue, "12:11", "4 addresses for 2 names"},
        Case{"range_form", with("duck[01-02]", "duck[01-02"), kValue, "11:8", "the bracket is not closed"},
        Case{"range_down", with("duck[01-02]", "duck[02-01]"), kValue, "11:8", "counts down"},
        Case{"range_mac_count", with("[101-102]\"\n", "[101-102]\"\nmac = [\"00:e0:4c:68:00:01\"]\n"), kValue, "13:7",
             "1 MAC addresses for 2 ducks"},
        Case{"range_mac_both",
             with("[101-102]\"\n", "[101-102]\"\nmac_first = \"00:e0:4c:68:00:01\"\nmac = [\"00:e0:4c:68:00:01\", "
                                   "\"00:e0:4c:68:00:02\"]\n"),
             kValue, "13:13", "mac and mac_first are both given"},
        Case{"power_driver", plus("[power]\ndriver = \"wakeonlan\"\n"), kValue, "22:10", "did you mean \"wake-on-lan\"?"},
        Case{"power_command_unused", plus("[power]\non_command = \"x\"\n"), kValue, "22:14", "only the driver \"exec\" runs it"},
        Case{"power_command_missing", plus("[power]\ndriver = \"exec\"\non_command = \"x\"\n"), kValue, "21:1",
             "power.off_command is missing"},
        Case{"engine_api_address", plus("[engine]\napi_address = \"localhost\"\n"), kValue, "22:15", "not an IPv4 address"},
        Case{"engine_api_port", plus("[engine]\napi_port = 65536\n"), kValue, "22:12", "an integer from 1 to 65535"},
        Case{"engine_context", plus("[engine]\ncontext_length = -1\n"), kValue, "22:18", "out of range"},
        Case{"limits_type", plus("[limits]\ndead_after_ms = \"5 s\"\n"), kValue, "22:17", "this is a string"},
        Case{"agent_port_zero", plus("[agent]\ncontrol_port = 0\n"), kValue, "22:16", "out of range"},
        Case{"section_unknown", plus("[limit]\n"), kValue, "21:2", "did you mean limits?"},
        Case{"section_type", "engine = 3\n" + std::string(kSample), kValue, "1:10", "write it as [engine]"},
        Case{"key_twice", plus("source = \"again\"\n"), kFile, "21:10", "already exists"},
        Case{"string_open", plus("chat_format = \"x\n"), kFile, "21:15", "not TOML"},
        Case{"not_utf8", plus("chat_format = \"\xff\"\n"), kFile, "21:16", "no UTF-8"}),
    [](const auto& given) { return given.param.name; });

TEST(InventoryFaults, ANestingThatWouldOverflowTheParserIsRefused) {
  const std::string deep = "a = " + std::string(100000, '[');
  EXPECT_THAT(fault_of(deep).message, HasSubstr("nested deeper"));
  EXPECT_THAT(fault_of("x = 1\n" + std::string(500, 'a') + std::string(2000, '.') + "b = 1\n").place, HasSubstr(":2:1"));
}

TEST(InventoryFaults, BracketsInStringsAndCommentsAreNotNesting) {
  const std::string many(100, '[');
  EXPECT_TRUE(parse_inventory(plus("chat_format = \"" + many + "\" # " + many + "\n"), "f").has_value());
  EXPECT_TRUE(parse_inventory(plus("chat_format = '''\n" + many + "''' \n"), "f").has_value());
}

TEST(InventoryFaults, AHugeFileIsRefused) {
  EXPECT_THAT(fault_of(std::string(300 * 1024, '#')).message, HasSubstr("more than 262144"));
}

TEST(InventoryFaults, ControlCharactersOfTheFileNeverReachTheTerminal) {
  const Error fault = fault_of(plus("x\x1b[31m = 1\n"));
  EXPECT_EQ(fault.window.find('\x1b'), std::string::npos);
}

TEST(InventoryFaults, AFlockWithoutADuckIsNone) {
  for (const char* list : {"duck = []\n", "ducks = []\n"}) {
    const auto flock = parse_inventory(std::string(list) + "[flock]\nname = \"x\"\n[[port]]\nname = \"p\"\ninterface = \"lo\"\n"
                                                           "address = \"127.21.1.1/24\"\n[model]\nsource = \"m\"\n",
                                       "flock.toml");
    ASSERT_FALSE(flock) << list;
    EXPECT_THAT(flock.error().errors.front().text(),
                testing::AllOf(testing::HasSubstr("needs a duck"), testing::HasSubstr("flock.toml:1:")));
  }
}

TEST(InventoryFaults, MoreThan64DucksAreRefused) {
  const std::string text = with("duck[01-02]", "duck[001-070]", with("[101-102]", "[10-79]"));
  EXPECT_EQ(fault_of(text).message, "the flock has 71 ducks, more than 64");
}

TEST(InventoryFaults, WhatIsNoUtf8IsToldWithItsPlaceAndNeverReachesTheLibrary) {
  for (const std::string& text : {std::string("[flock]\nname = \"d\xfc\"\n"), std::string("[flock]\nname = 'd\xfc'\n"),
                                  std::string("# caf\xe9\nx = 1\n"), std::string("'prt\xac\xac' = 1\n"),
                                  std::string("[flock]\nname = \"\xed\xa0\x80\"\n")}) { // the last: half of a surrogate pair
    const Error fault = fault_of(text);
    EXPECT_EQ(fault.message, "not TOML: this is no UTF-8");
    EXPECT_THAT(fault.place, StartsWith("flock.toml:"));
    EXPECT_THAT(fault.text(), Not(HasSubstr("\xac")));
  }
  EXPECT_EQ(fault_of("[flock]\nname = \"d\xfc\"\n").place, "flock.toml:2:10");
  EXPECT_TRUE(parse_inventory(plus("# caf\u00e9 \U0001F986\n"), "flock.toml"));
}

TEST(InventoryFaults, ABareWordIsToldToStandInQuotes) {
  for (const char* word : {"home", "trial"}) {
    const Error fault = fault_of(std::string("[flock]\nname = ") + word + "\n");
    EXPECT_THAT(fault.message, AllOf(StartsWith("not TOML: "), Not(EndsWith(": ")))) << word;
    EXPECT_THAT(fault.next, HasSubstr("a text stands in double quotes")) << word;
  }
}

TEST(InventoryFaults, NamesOfOtherProcessesAreTaken) {
  const Error fault = fault_of(with("\"extra\"", "\"duck-engine\""));
  EXPECT_EQ(fault.message, "a duck can't be called duck-engine");
  EXPECT_THAT(fault.place, testing::StartsWith("flock.toml:"));
}

TEST(InventoryFaults, WakingNeedsANetworkCardAndAMacAtEveryDuck) {
  const std::vector<Error> faults = faults_of(plus("[power]\ndriver = \"wake-on-lan\"\n"));
  ASSERT_EQ(faults.size(), 4u);
  EXPECT_THAT(faults[0].message, HasSubstr("through loopback"));
  EXPECT_EQ(faults[3].message, "extra has no MAC address");
}

TEST(InventoryFaults, ProcessesAreNotBooted) {
  const Error fault = fault_of(plus("[netboot]\nenabled = true\n"));
  EXPECT_EQ(fault.message, "ducks that are processes of this machine boot nothing");
}

TEST(InventoryFaults, AFileThatCannotBeReadSaysWhy) {
  const auto absent = load_inventory("/nonexistent/flock.toml");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().errors.at(0).message, "there is no such file");
  const auto folder = load_inventory("/tmp");
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().errors.at(0).message, "this is a folder, not a file");
}

} // namespace
} // namespace ductl::inventory
