// Speculation with a real MTP layer over real ducks: the text is the same with it and without.
#include "engine/attention/cpu_backend.hpp"
#include "engine/lanes/forward.hpp"
#include "engine/session/generator.hpp"
#include "tests/session/fake_model.hpp"
#include "tests/support/in_process_flock.hpp"
#include "tests/support/tiny_checkpoint.hpp"

namespace ductl::engine {
namespace {

template <class T> T must(Expected<T> value) {
  if (!value) throw std::runtime_error(value.error().text());
  return std::move(*value);
}

class TinyMtp : public testing::Test {
protected:
  TinyMtp() {
    ductl::test::TinyModel model;
    model.model_type = "deepseek_v32";
    model.type = ductl::test::TinyType::F8;
    model.vocab = 10; // so that an untrained layer is right now and then
    model.moe_intermediate = 128;
    model.mtp_layers = 1;
    model.index_topk = 24;
    model.yarn_factor = 4;
    ductl::test::write_tiny_checkpoint(model, folder_.path());
    checkpoint_ = must(weights::open_checkpoint(folder_.path()));
    for (int i = 0; i < model.vocab; ++i) tokenizer_.pieces.push_back(std::to_string(i));
  }

  GenerateResult generate(int ducks, const GenerateRequest& request, bool speculate) {
    ductl::test::InProcessFlock flock(*checkpoint_, {.ducks = ducks});
    const auto backend = must(make_cpu_backend(*checkpoint_, {.threads = 1 + ducks % 2}));
    const auto router = must(Router::load(*checkpoint_));
    Forward forward(*backend, flock.ffn(), router, checkpoint_->config());
    GeneratorOptions options;
    options.context_length = 200;
    options.speculate = speculate;
    const auto generator = must(make_generator(forward, tokenizer_, chat_format_, checkpoint_->config(), options));
    return must(generator->generate(request, {}));
  }

  const ductl::test::TempFolder folder_;
  std::unique_ptr<weights::Checkpoint> checkpoint_;
  test::FakeTokenizer tokenizer_;
  test::FakeChatFormat chat_format_;
};

TEST_F(TinyMtp, TheTextIsTheSameWithSpeculationAndWithoutOnAnyNumberOfDucks) {
  ASSERT_EQ(checkpoint_->config().mtp_layers, 1);
  GenerateRequest request;
  request.prompt = {1, 4, 2, 9, 9, 3, 0, 5, 7};
  request.output_tokens_max = 120; // far beyond index_topk
  for (const float temperature : {0.0F, 0.7F}) {
    request.sampling.temperature = temperature;
    request.sampling.seed = 11;
    const GenerateResult plain = generate(1, request, false);
    EXPECT_EQ(plain.stats.drafted_tokens, 0);
    for (const int ducks : {1, 2, 5, 31}) {
      const GenerateResult result = generate(ducks, request, true);
      EXPECT_EQ(result.tokens, plain.tokens) << ducks << " ducks at " << temperature;
      EXPECT_GT(result.stats.accepted_tokens, 0);
      EXPECT_LT(result.stats.accepted_tokens, result.stats.drafted_tokens);
    }
  }
}

} // namespace
} // namespace ductl::engine
