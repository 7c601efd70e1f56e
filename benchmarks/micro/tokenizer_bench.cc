// Speed of encoding and decoding with the SmolLM2 vocabulary. Texts are made of words that the vocabulary has
// and of words it must put together; hostile ones are runs that a quadratic tokenizer would not survive.
#include <benchmark/benchmark.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "tests/unit/text/fixture_tokenizers.h"
#include "text/output_text.h"
#include "text/tokenizer.h"

namespace skipjack {
namespace {

const std::shared_ptr<const Tokenizer>& SmolLm2() {
  static const std::shared_ptr<const Tokenizer> tokenizer = FixtureTokenizer("smollm2_real");
  return tokenizer;
}

// Prose, code and Markdown: this project's own licence and this file, over and over.
std::string English(std::size_t bytes) {
  std::stringstream content;
  content << std::ifstream(SKIPJACK_ROOT "/LICENSE").rdbuf();
  content << std::ifstream(SKIPJACK_ROOT "/benchmarks/micro/tokenizer_bench.cc").rdbuf();
  std::string text = content.str();
  while (text.size() < bytes) text += text;
  return text.substr(0, bytes);
}

std::string Repeated(std::string_view unit, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  return text;
}

void Encode(benchmark::State& state, const std::string& text, bool trusted) {
  const Segment segment{text, trusted};
  std::size_t tokens = 0;
  for (auto _ : state) {
    const auto ids = SmolLm2()->Encode({&segment, 1}, {});
    tokens = ids->size();
    benchmark::DoNotOptimize(ids->data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
  state.counters["tokens"] = static_cast<double>(tokens);
}

void BM_Create(benchmark::State& state) {
  const TokenizerSpec spec = SpecFromGguf(SKIPJACK_FIXTURES "/tokenizers/smollm2_real.vocab.gguf");
  for (auto _ : state) benchmark::DoNotOptimize(Tokenizer::Create(spec)->get());
}
BENCHMARK(BM_Create)->Unit(benchmark::kMillisecond);

void BM_EncodeEnglish(benchmark::State& state) {
  Encode(state, English(static_cast<std::size_t>(state.range(0))), false);
}
BENCHMARK(BM_EncodeEnglish)->Arg(200)->Arg(100'000)->Unit(benchmark::kMicrosecond);

void BM_EncodeTrusted(benchmark::State& state) {
  Encode(state, English(100'000), true);
}
BENCHMARK(BM_EncodeTrusted)->Unit(benchmark::kMicrosecond);

void BM_EncodeRuns(benchmark::State& state, const char* unit) {
  Encode(state, Repeated(unit, 512 << 10), false);
}
BENCHMARK_CAPTURE(BM_EncodeRuns, letter, "a")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_EncodeRuns, space, " ")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_EncodeRuns, mark, "\u0301")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_EncodeRuns, emoji, "😀")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_EncodeRuns, russian, "Съешь же ещё этих мягких французских булок, ")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_EncodeRuns, chinese, "今天天气很好，我们去海边看船。")->Unit(benchmark::kMillisecond);

// One token through the detokenizer and, with an argument, the stop matcher.
void BM_OutputText(benchmark::State& state) {
  const Segment segment{English(20'000), false};
  const std::vector<TokenId> ids = *SmolLm2()->Encode({&segment, 1}, {});
  OutputText::Options options;
  if (state.range(0) != 0) options.stop_strings = {"\n\nUser:", "</answer>", "never ever"};
  std::size_t next = ids.size();
  std::unique_ptr<OutputText> output;
  for (auto _ : state) {
    if (next == ids.size()) {
      next = 0;
      output = std::make_unique<OutputText>(SmolLm2(), options);
    }
    benchmark::DoNotOptimize(output->Append(ids[next++]).text.data());
  }
}
BENCHMARK(BM_OutputText)->Arg(0)->Arg(1);

}  // namespace
}  // namespace skipjack

BENCHMARK_MAIN();
