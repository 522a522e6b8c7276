// Each rule finds what it is for: a checker that finds nothing proves nothing.
#include "rules.hpp"

#include <gmock/gmock.h>

namespace ductl::tidy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(FloorRule, IncludesThatGoUpAreFound) {
  EXPECT_THAT(floor_complaints("inventory/a.cpp", "#pragma once\n#include \"weights/slice.hpp\"\n"),
              ElementsAre("inventory/a.cpp:2: inventory/ may not include weights/slice.hpp"));
  EXPECT_THAT(floor_complaints("ductl/commands/up.cpp", "  #  include \"engine/sampler.hpp\"\n"),
              ElementsAre("ductl/commands/up.cpp:1: ductl/ may not include engine/sampler.hpp"));
  EXPECT_EQ(floor_complaints("netboot/http/a.cpp", "#include \"netboot/dhcp/packet.hpp\"\n").size(), 1u);
  EXPECT_EQ(floor_complaints("agent/a.cpp", "#include \"netboot/dhcp/responder.hpp\"\n").size(), 1u);
  EXPECT_EQ(floor_complaints("netboot/dhcp/packet.hpp", "#include \"netboot/boot_plan.hpp\"\n").size(), 1u);
  EXPECT_EQ(floor_complaints("agent/a.cpp", "#include \"netboot/image/cpio.hpp\"\n").size(), 1u);
  EXPECT_EQ(floor_complaints("netboot/image/modules/a.cpp", "#include \"netboot/image/files.hpp\"\n").size(), 1u);
  EXPECT_EQ(floor_complaints("engine/a.cpp", "#include \"agent/store/slice_store.hpp\"\n").size(), 1u);
  EXPECT_EQ(floor_complaints("weights/a.cpp", "#include \"tests/x.hpp\"\n").size(), 1u);
}

TEST(FloorRule, IncludesThatGoDownAreFine) {
  EXPECT_THAT(floor_complaints(
                  "engine/a.cpp",
                  "#include \"engine/b.hpp\"\n#include \"agent/wire/header.hpp\"\n#include \"netboot/http/http_server.hpp\"\n"
                  "#include \"weights/slice.hpp\"\n#include <vector>\n"),
              IsEmpty());
  EXPECT_THAT(floor_complaints("tests/a.cpp", "#include \"sample.hpp\"\n"), IsEmpty());
}

TEST(FloorRule, TheAgentAsksForItsAddressWithTheServersOwnPackets) {
  EXPECT_THAT(floor_complaints("agent/init/a.cpp", "#include \"netboot/dhcp/packet.hpp\"\n#include \"netboot/bytes.hpp\"\n"),
              IsEmpty());
}

TEST(FloorRule, TheAgentFindsItsModulesWithTheImagesOwnCode) {
  EXPECT_THAT(floor_complaints("agent/a.cpp", "#include \"netboot/image/modules/modalias.hpp\"\n"), IsEmpty());
}

TEST(FloorRule, PathsBeginAtTheRoot) {
  EXPECT_EQ(floor_complaints("weights/a.cpp", "#include \"slice.hpp\"\n").size(), 1u);
  EXPECT_EQ(floor_complaints("weights/a.cpp", "#include \"weights/../agent/x.hpp\"\n").size(), 1u);
}

TEST(LibraryRule, LibrariesStayInTheirFolder) {
  EXPECT_THAT(library_complaints("ductl/a.cpp", "#include <toml.hpp>\n"), ElementsAre("ductl/a.cpp:1: no place for toml.hpp"));
  EXPECT_THAT(library_complaints("inventory/a.cpp", "#include <toml.hpp>\n"), IsEmpty());
  EXPECT_EQ(library_complaints("engine/server/a.cpp", "#include <boost/beast/http.hpp>\n").size(), 1u);
  EXPECT_EQ(library_complaints("engine/server/a.cpp", "#include <curl/curl.h>\n").size(), 1u);
  EXPECT_EQ(library_complaints("netboot/dhcp/responder.cpp", "#include <boost/asio/post.hpp>\n").size(), 1u);
  EXPECT_THAT(library_complaints("netboot/server/a.cpp", "#include <boost/asio/post.hpp>\n#include <linux/if_packet.h>\n"),
              IsEmpty());
  EXPECT_EQ(library_complaints("agent/main.cpp", "#include <CLI/CLI.hpp>\n").size(), 1u);
  EXPECT_EQ(library_complaints("engine/attention/a.cpp", "#include <immintrin.h>\n").size(), 1u);
  EXPECT_THAT(library_complaints("engine/attention/a_avx2.cpp", "#include <immintrin.h>\n"), IsEmpty());
  EXPECT_EQ(library_complaints("weights/a.cpp", "#include <gtest/gtest.h>\n").size(), 1u);
}

TEST(Avx2Rule, KernelFilesIncludeAlmostNothing) {
  EXPECT_THAT(avx2_complaints("agent/kernels/a_avx2.cpp",
                              "#include \"agent/kernels/a.hpp\"\n#include <cstdint>\n#include <immintrin.h>\n"),
              IsEmpty());
  EXPECT_EQ(avx2_complaints("agent/kernels/a_avx2.cpp", "#include <vector>\n#include \"weights/tile.hpp\"\n").size(), 2u);
  EXPECT_THAT(avx2_complaints("agent/kernels/a.cpp", "#include <vector>\n"), IsEmpty());
}

TEST(FormRule, LengthGuardAndSwitchesAreFound) {
  EXPECT_EQ(form_complaints("a.cpp", std::string(601, '\n')).size(), 1u);
  EXPECT_THAT(form_complaints("a.cpp", std::string(600, '\n')), IsEmpty());
  EXPECT_EQ(form_complaints("a.hpp", "int x;\n").size(), 1u);
  EXPECT_EQ(form_complaints("a.cpp", "#ifdef DUCTL_CUDA\n").size(), 1u);
  EXPECT_EQ(form_complaints("a.cpp", "#if defined(DUCTL_CUDA)\n").size(), 1u);
  EXPECT_EQ(form_complaints("a.cpp", std::string("// TO") + "DO: later\n").size(), 1u);
}

TEST(ClockRule, OnlyLoopsReadClocks) {
  EXPECT_EQ(clock_complaints("ductl/reconcile/planner.cpp", "auto t = Clock::now();\n").size(), 1u);
  EXPECT_EQ(clock_complaints("weights/a.cpp", "clock_gettime(CLOCK_MONOTONIC, &t);\n").size(), 1u);
  EXPECT_EQ(clock_complaints("engine/moe/round.cpp", "auto t = Clock::now();\n").size(), 1u);
  EXPECT_EQ(clock_complaints("engine/session/generator.cpp", "auto t = Clock::now();\n").size(), 1u);
  EXPECT_EQ(clock_complaints("netboot/tftp/transfer.cpp", "auto t = Clock::now();\n").size(), 1u);
  EXPECT_THAT(clock_complaints("netboot/server/boot_server.cpp", "auto t = Clock::now();\n"), IsEmpty());
  EXPECT_THAT(clock_complaints("agent/main.cpp", "auto t = Clock::now();\n"), IsEmpty());
}

} // namespace
} // namespace ductl::tidy
