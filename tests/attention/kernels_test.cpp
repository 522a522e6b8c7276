#include "engine/attention/kernels/kernels.hpp"
#include "tests/attention/random_matrix.hpp"

#include <gtest/gtest.h>
#include <memory>

namespace ductl::engine {
namespace {

using test::RandomMatrix;
using test::TinyRandom;

struct TypeCase {
  DenseType type;
  bool scale_bf16;
};
constexpr TypeCase kTypes[] = {{DenseType::F32, false},
                               {DenseType::F16, false},
                               {DenseType::Bf16, false},
                               {DenseType::F8E4M3, false},
                               {DenseType::F8E4M3, true}};

// A copy that ends where the heap block ends, so that a sanitizer sees a read beyond it.
std::vector<float> random_floats(std::size_t count, std::uint64_t seed) { return TinyRandom(seed).normals(count); }

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> product(const Kernels& kernels, const DenseMatrix& matrix, const std::vector<float>& x, int tokens) {
  std::vector<float> y(std::size_t(tokens) * matrix.rows, -1);
  kernels.product({&matrix, 0, matrix.rows, tokens, x.data(), matrix.columns, y.data(), matrix.rows});
  return y;
}

class Avx2 : public testing::Test {
protected:
  void SetUp() override {
    if (avx2_kernels() == nullptr) GTEST_SKIP() << "this processor has no AVX2, FMA or F16C";
  }
};

TEST_F(Avx2, ProductHasTheScalarBitsForEveryTypeShapeAndBatch) {
  std::uint64_t seed = 0;
  for (const TypeCase& type : kTypes)
    for (const int columns : {1, 7, 8, 48, 96, 130, 208, 576, 1030})
      for (const int rows : {1, 2, 5, 19}) {
        const RandomMatrix matrix(type.type, rows, columns, ++seed, type.scale_bf16);
        for (const int tokens : {1, 2, 3, 4, 5, 7}) {
          const std::vector<float> x = random_floats(std::size_t(tokens) * columns, ++seed);
          ASSERT_TRUE(
              same_bits(product(scalar_kernels(), matrix.view, x, tokens), product(*avx2_kernels(), matrix.view, x, tokens)))
              << "type " << int(type.type) << " " << rows << "x" << columns << " tokens " << tokens;
        }
      }
}

TEST_F(Avx2, ATokensBitsAreTheSameInABatchOf64AndBeyond) {
  for (const TypeCase& type : kTypes) {
    const RandomMatrix matrix(type.type, 70, 300, 5, type.scale_bf16);
    const int tokens = 71;
    const std::vector<float> x = random_floats(std::size_t(tokens) * 300, 6);
    const std::vector<float> together = product(*avx2_kernels(), matrix.view, x, tokens);
    for (int token = 0; token < tokens; ++token) {
      const std::vector<float> alone =
          product(*avx2_kernels(), matrix.view, {x.begin() + token * 300, x.begin() + (token + 1) * 300}, 1);
      ASSERT_TRUE(same_bits(alone, {together.begin() + token * 70, together.begin() + (token + 1) * 70})) << token;
    }
  }
}

TEST_F(Avx2, ARowsBitsAreTheSameInAnyRange) {
  for (const TypeCase& type : kTypes) {
    const RandomMatrix matrix(type.type, 40, 130, 7, type.scale_bf16);
    for (const int tokens : {1, 6}) {
      const std::vector<float> x = random_floats(std::size_t(tokens) * 130, 8);
      const std::vector<float> whole = product(*avx2_kernels(), matrix.view, x, tokens);
      std::vector<float> pieces(whole.size());
      for (int row = 0; row < 40;) {
        const int end = std::min(40, row + 1 + row % 7);
        avx2_kernels()->product({&matrix.view, row, end, tokens, x.data(), 130, pieces.data(), 40});
        row = end;
      }
      EXPECT_TRUE(same_bits(whole, pieces));
    }
  }
}

TEST_F(Avx2, AViewOfRowsKeepsItsScales) {
  const RandomMatrix matrix(DenseType::F8E4M3, 300, 140, 9);
  const std::vector<float> x = random_floats(140, 10);
  const std::vector<float> whole = product(*avx2_kernels(), matrix.view, x, 1);
  DenseMatrix view = matrix.view;
  view.data += 100 * 140;
  view.first_row = 100;
  view.rows = 90;
  for (const Kernels* kernels : {&scalar_kernels(), avx2_kernels()})
    EXPECT_TRUE(same_bits(product(*kernels, view, x, 1), {whole.begin() + 100, whole.begin() + 190}));
}

TEST_F(Avx2, TransposedHasTheScalarBits) {
  std::uint64_t seed = 100;
  for (const TypeCase& type : kTypes)
    for (const int columns : {1, 8, 20, 32, 67, 300})
      for (const int rows : {1, 3, 64, 131}) {
        const RandomMatrix matrix(type.type, rows, columns, ++seed, type.scale_bf16);
        for (const int tokens : {1, 2, 3, 5, 8}) {
          const std::vector<float> x = random_floats(std::size_t(tokens) * rows, ++seed);
          std::vector<float> expected = random_floats(std::size_t(tokens) * columns, ++seed), got = expected;
          scalar_kernels().transposed({&matrix.view, 0, rows, tokens, x.data(), rows, expected.data(), columns});
          // In two parts, the chain goes on.
          avx2_kernels()->transposed({&matrix.view, 0, rows / 3, tokens, x.data(), rows, got.data(), columns});
          avx2_kernels()->transposed({&matrix.view, rows / 3, rows, tokens, x.data(), rows, got.data(), columns});
          ASSERT_TRUE(same_bits(expected, got)) << "type " << int(type.type) << " " << rows << "x" << columns << " " << tokens;
        }
      }
}

TEST(DenseProduct, IsNearTheProductInDouble) {
  for (const TypeCase& type : kTypes) {
    const RandomMatrix matrix(type.type, 33, 7168, 11, type.scale_bf16);
    const std::vector<float> x = random_floats(7168, 12);
    const std::vector<float> y = product(kernels(), matrix.view, x, 1);
    for (int row = 0; row < 33; ++row) {
      double exact = 0, magnitude = 0;
      for (int column = 0; column < 7168; ++column) {
        exact += matrix.at(row, column) * x[column];
        magnitude += std::fabs(matrix.at(row, column) * x[column]);
      }
      EXPECT_NEAR(y[row], exact, 1e-6 * magnitude) << "type " << int(type.type);
    }
  }
}

TEST(DenseProduct, ConvertsEveryCodeOfTheSmallTypesExactly) {
  const float one = 1;
  std::vector<std::uint8_t> codes;
  for (int code = 0; code < 256; ++code)
    if ((code & 0x7f) != 0x7f) codes.push_back(std::uint8_t(code));
  const float scale[2] = {0.3F, 0.7F};
  const DenseMatrix fp8{
      codes.data(), reinterpret_cast<const std::uint8_t*>(scale), DenseType::F8E4M3, false, int(codes.size()), 1, 0};
  std::vector<std::uint16_t> halves;
  for (int code = 0; code < 0x10000; ++code)
    if ((code & 0x7c00) != 0x7c00) halves.push_back(std::uint16_t(code));
  const DenseMatrix f16{
      reinterpret_cast<const std::uint8_t*>(halves.data()), nullptr, DenseType::F16, false, int(halves.size()), 1, 0};
  std::vector<float> y(halves.size());
  kernels().product({&fp8, 0, fp8.rows, 1, &one, 1, y.data(), 0});
  for (std::size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(y[i], test::e4m3_value(codes[i]) * scale[i / 128]) << int(codes[i]);
  kernels().product({&f16, 0, f16.rows, 1, &one, 1, y.data(), 0});
  for (std::size_t i = 0; i < halves.size(); ++i) ASSERT_EQ(test::f16_of(y[i]) & 0x7fff, halves[i] & 0x7fff);
}

TEST(Exponential, IsWithinTwoUlpOfTheTrueValue) {
  for (double x = 0; x > -87.3; x -= 0.00137) {
    const double exact = std::exp(double(float(x)));
    EXPECT_NEAR(exp_nonpositive(float(x)), exact, 2.4e-7 * exact) << x;
  }
  EXPECT_EQ(exp_nonpositive(0), 1.0F);
  EXPECT_EQ(exp_nonpositive(-1000), 0.0F);
  EXPECT_EQ(exp_nonpositive(-INFINITY), 0.0F);
  EXPECT_TRUE(std::isnan(exp_nonpositive(NAN)));
}

TEST_F(Avx2, NormSoftmaxAndActivationHaveTheScalarBits) {
  for (const int size : {1, 3, 8, 9, 48, 576, 1001}) {
    const std::vector<float> x = random_floats(size, 20), w = random_floats(size, 21);
    std::vector<float> a(x.size()), b(x.size());
    scalar_kernels().rms_norm(x.data(), w.data(), size, 1e-5F, a.data());
    avx2_kernels()->rms_norm(x.data(), w.data(), size, 1e-5F, b.data());
    EXPECT_TRUE(same_bits(a, b)) << "norm of " << size;
    std::vector<float> scores = x;
    for (float& score : scores) score *= 40; // some vanish
    a = b = scores;
    EXPECT_EQ(scalar_kernels().softmax(a.data(), size, 0.7F), avx2_kernels()->softmax(b.data(), size, 0.7F));
    EXPECT_TRUE(same_bits(a, b)) << "softmax of " << size;
    a = b = scores;
    scalar_kernels().silu_multiply(a.data(), w.data(), size);
    avx2_kernels()->silu_multiply(b.data(), w.data(), size);
    EXPECT_TRUE(same_bits(a, b)) << "activation of " << size;
    a = b = w;
    scalar_kernels().add_relu(x.data(), -0.3F, size, a.data());
    avx2_kernels()->add_relu(x.data(), -0.3F, size, b.data());
    EXPECT_TRUE(same_bits(a, b)) << "weighted relu of " << size;
  }
}

TEST(Elementwise, IsNearTheFormulasInDouble) {
  const int size = 333;
  const std::vector<float> x = random_floats(size, 30), w = random_floats(size, 31);
  std::vector<float> y(size);
  kernels().rms_norm(x.data(), w.data(), size, 1e-6F, y.data());
  double squares = 0;
  for (const float value : x) squares += double(value) * value;
  for (int i = 0; i < size; ++i)
    EXPECT_NEAR(y[i], x[i] / std::sqrt(squares / size + 1e-6) * w[i], 1e-6 * std::fabs(y[i]) + 1e-12);

  y = x;
  const float inverse = kernels().softmax(y.data(), size, 0.125F);
  double sum = 0;
  for (const float value : x) sum += std::exp(0.125 * value);
  for (int i = 0; i < size; ++i) EXPECT_NEAR(y[i] * inverse, std::exp(0.125 * x[i]) / sum, 1e-8);

  std::vector<float> gate = x;
  for (float& value : gate) value *= 30;
  y = gate;
  kernels().silu_multiply(y.data(), w.data(), size);
  for (int i = 0; i < size; ++i)
    EXPECT_NEAR(y[i], gate[i] / (1 + std::exp(-double(gate[i]))) * w[i], 1e-6 * std::fabs(y[i]) + 1e-30);

  y = w;
  kernels().add_relu(x.data(), 0.7F, size, y.data());
  for (int i = 0; i < size; ++i) EXPECT_NEAR(y[i], w[i] + 0.7 * std::max(x[i], 0.0F), 1e-6);
}

} // namespace
} // namespace ductl::engine
