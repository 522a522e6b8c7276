// Speculation with a real MTP layer over real ducks: the text is the same with it and without.
#include "engine/attention/cpu_backend.hpp"
#include "engine/lanes/forward.hpp"
#include "engine/session/generator.hpp"
#include "tests/session/fake_model.hpp"
#include "tests/support/in_process_flock.hpp"
#include "tests/support/tiny_checkpoint.hpp"

#include <gmock/gmock.h>

namespace ductl::engine {
namespace {

template <class T> T must(Expected<T> value) {
  if (!value) throw std::runtime_error(value.error().text());
  return std::move(*value);
}

ductl::test::TinyModel tiny_model() {
  ductl::test::TinyModel model;
  model.model_type = "deepseek_v32";
  model.type = ductl::test::TinyType::F8;
  model.vocab = 10; // so that an untrained layer is right now and then
  model.moe_intermediate = 128;
  model.mtp_layers = 1;
  model.index_topk = 24;
  model.yarn_factor = 4;
  return model;
}

class TinyMtp : public testing::Test {
protected:
  TinyMtp() {
    write(tiny_model());
    for (int i = 0; i < tiny_model().vocab; ++i) tokenizer_.pieces.push_back(std::to_string(i));
  }

  void write(const ductl::test::TinyModel& model) {
    checkpoint_.reset();
    ductl::test::write_tiny_checkpoint(model, folder_.path());
    open();
  }
  void open() { checkpoint_ = must(weights::open_checkpoint(folder_.path())); }

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

  static GenerateRequest request() {
    GenerateRequest request;
    request.prompt = {1, 4, 2, 9, 9, 3, 0, 5, 7};
    request.output_tokens_max = 120; // far beyond index_topk
    return request;
  }

  const ductl::test::TempFolder folder_;
  std::unique_ptr<weights::Checkpoint> checkpoint_;
  test::FakeTokenizer tokenizer_;
  test::FakeChatFormat chat_format_;
};

TEST_F(TinyMtp, TheTextIsTheSameWithSpeculationAndWithoutOnAnyNumberOfDucks) {
  ASSERT_EQ(checkpoint_->config().mtp_layers, 1);
  GenerateRequest request = TinyMtp::request();
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

TEST_F(TinyMtp, PenaltiesAndStopStringsSeeTheSameTokensWithGuesses) {
  GenerateRequest asked = request();
  asked.sampling.repetition_penalty = 1.3F;
  const GenerateResult plain = generate(2, asked, false), guessed = generate(2, asked, true);
  EXPECT_EQ(guessed.tokens, plain.tokens);
  EXPECT_GT(guessed.stats.accepted_tokens, 0);
  EXPECT_NE(plain.tokens, generate(2, request(), false).tokens); // it does penalise

  const std::size_t middle = plain.text.size() / 2;
  asked.stop = {plain.text.substr(middle, 3)}; // in the answer, over three tokens
  const GenerateResult cut = generate(2, asked, false), cut_guessed = generate(2, asked, true);
  EXPECT_EQ(cut.finish, FinishReason::Stop);
  EXPECT_LT(cut.text.size(), plain.text.size());
  EXPECT_EQ(cut_guessed.text, cut.text);
  EXPECT_EQ(cut_guessed.finish, cut.finish);
}

TEST_F(TinyMtp, EmbeddingAndHeadAreTheModelsOwnWhetherTheLayerBringsCopiesOrNot) {
  const GenerateResult without = generate(2, request(), true);
  ductl::test::TinyModel model = tiny_model();
  model.mtp_copies = true;
  write(model);
  EXPECT_EQ(generate(2, request(), true).tokens, without.tokens);
  EXPECT_GT(generate(2, request(), true).stats.drafted_tokens, 0);
}

TEST_F(TinyMtp, OfSeveralLayersTheFirstIsUsed) {
  ductl::test::TinyModel model = tiny_model();
  model.mtp_layers = 2;
  write(model);
  EXPECT_EQ(checkpoint_->config().mtp_layers, 1);
  const GenerateResult guessed = generate(2, request(), true);
  EXPECT_EQ(guessed.tokens, generate(2, request(), false).tokens);
  EXPECT_GT(guessed.stats.drafted_tokens, 0);
}

TEST_F(TinyMtp, AFileWithoutTheLayerThatItsConfigNamesIsServedWithoutGuesses) {
  const GenerateResult with = generate(2, request(), false);
  ductl::test::TinyModel model = tiny_model();
  model.mtp_layers = 0;
  write(model);
  ductl::test::replace_in(folder_.path() / "config.json", "\"index_topk\"", "\"num_nextn_predict_layers\": 1, \"index_topk\"");
  checkpoint_.reset();
  open();
  EXPECT_EQ(checkpoint_->config().mtp_layers, 0);
  const GenerateResult result = generate(2, request(), true);
  EXPECT_EQ(result.stats.drafted_tokens, 0);
  EXPECT_EQ(result.tokens.size(), with.tokens.size());
}

TEST_F(TinyMtp, ALayerThatIsThereInPartIsRefusedByName) {
  checkpoint_.reset();
  ductl::test::replace_in(folder_.path() / "model.safetensors", ".hnorm.weight", ".hnorn.weight");
  open();
  const auto backend = make_cpu_backend(*checkpoint_, {.threads = 1});
  ASSERT_FALSE(backend);
  EXPECT_THAT(backend.error().text(), testing::HasSubstr("hnorm.weight"));
}

} // namespace
} // namespace ductl::engine
