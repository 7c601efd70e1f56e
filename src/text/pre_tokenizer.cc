#include "text/pre_tokenizer.h"

#include <algorithm>
#include <iterator>

namespace skipjack {
namespace {

using namespace pretokenize;
using Contractions = WordRules::Contractions;
using Tail = WordRules::Tail;

template <class Scanner>
constexpr SplitStage kStage = &Scanner::template Next<PlainText>;

// ranges of [一-龥ࠀ-一가-퟿]
constexpr CodePointRange kDeepSeekCjk[] = {{0x800, 0x9FA5}, {0xAC00, 0xD7FF}};
// ranges of [一-龥぀-ゟ゠-ヿ]
constexpr CodePointRange kDeepSeekV3Cjk[] = {{0x3040, 0x30FF}, {0x4E00, 0x9FA5}};
// DeepSeek-LLM spells its letters out: the cased letters of an older Unicode version.
constexpr CodePointRange kDeepSeekLetters[] = {
    {0x41, 0x5A},       {0x61, 0x7A},       {0xB5, 0xB5},       {0xC0, 0xD6},       {0xD8, 0xF6},
    {0xF8, 0x1BA},      {0x1BC, 0x1BF},     {0x1C4, 0x293},     {0x295, 0x2AF},     {0x370, 0x373},
    {0x376, 0x377},     {0x37B, 0x37D},     {0x37F, 0x37F},     {0x386, 0x386},     {0x388, 0x38A},
    {0x38C, 0x38C},     {0x38E, 0x3A1},     {0x3A3, 0x3F5},     {0x3F7, 0x481},     {0x48A, 0x52F},
    {0x531, 0x556},     {0x10A0, 0x10C5},   {0x13A0, 0x13F5},   {0x13F8, 0x13FD},   {0x1C90, 0x1CBA},
    {0x1CBD, 0x1CBF},   {0x1D00, 0x1D2B},   {0x1D6B, 0x1D77},   {0x1D79, 0x1D9A},   {0x1E00, 0x1F15},
    {0x1F18, 0x1F1D},   {0x1F20, 0x1F45},   {0x1F48, 0x1F4D},   {0x1F50, 0x1F57},   {0x1F59, 0x1F59},
    {0x1F5B, 0x1F5B},   {0x1F5D, 0x1F5D},   {0x1F5F, 0x1F7D},   {0x1F80, 0x1FB4},   {0x1FB6, 0x1FBC},
    {0x1FBE, 0x1FBE},   {0x1FC2, 0x1FC4},   {0x1FC6, 0x1FCC},   {0x1FD0, 0x1FD3},   {0x1FD6, 0x1FDB},
    {0x1FE0, 0x1FEC},   {0x1FF2, 0x1FF4},   {0x1FF6, 0x1FFC},   {0x2102, 0x2102},   {0x2107, 0x2107},
    {0x210A, 0x2113},   {0x2115, 0x2115},   {0x2119, 0x211D},   {0x2124, 0x2124},   {0x2126, 0x2126},
    {0x2128, 0x2128},   {0x212A, 0x212D},   {0x212F, 0x2134},   {0x2139, 0x2139},   {0x213C, 0x213F},
    {0x2145, 0x2149},   {0x214E, 0x214E},   {0x2183, 0x2184},   {0x2C00, 0x2C7B},   {0x2C7E, 0x2CE4},
    {0x2CEB, 0x2CEE},   {0x2CF2, 0x2CF3},   {0xA640, 0xA66D},   {0xA680, 0xA69B},   {0xA722, 0xA76F},
    {0xA771, 0xA787},   {0xA78B, 0xA78E},   {0xAB70, 0xABBF},   {0xFB00, 0xFB06},   {0xFB13, 0xFB17},
    {0xFF21, 0xFF3A},   {0xFF41, 0xFF5A},   {0x10400, 0x1044F}, {0x104B0, 0x104D3}, {0x104D8, 0x104FB},
    {0x10C80, 0x10CB2}, {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF}, {0x1E900, 0x1E943}};
// [!-/:-~！-／：-～‘-‟　-。]
constexpr CodePointRange kDeepSeekPunctuation[] = {{0x21, 0x2F},     {0x3A, 0x7E},     {0x2018, 0x201F},
                                                   {0x3000, 0x3002}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E}};

constexpr WordRules kLlama3Rules{};
constexpr WordRules kQwen2Rules{.max_digits = 1};
constexpr WordRules kQwen35Rules{.word = kLetter | kMark, .max_digits = 1};
constexpr WordRules kSeedCoderRules{.max_digits = 1, .tail = Tail::kNone};
constexpr WordRules kGpt4oRules{
    .split_at_case = true, .contractions = Contractions::kEndsWord, .tail = Tail::kLineBreaksAndSlashes};
constexpr WordRules kTekkenRules{.split_at_case = true,
                                 .contractions = Contractions::kNone,
                                 .max_digits = 1,
                                 .tail = Tail::kLineBreaksAndSlashes};

constexpr SplitStage kGpt2Stages[] = {kStage<Gpt2Words>};
constexpr SplitStage kSmolLmStages[] = {kStage<Matches<Digits<1>>>, kStage<Gpt2Words>};
constexpr SplitStage kLlama3Stages[] = {kStage<Words<kLlama3Rules>>};
constexpr SplitStage kMiniCpm5Stages[] = {kStage<Matches<Digits<3>>>, kStage<Words<kLlama3Rules>>};
constexpr SplitStage kQwen2Stages[] = {kStage<Words<kQwen2Rules>>};
constexpr SplitStage kQwen35Stages[] = {kStage<Words<kQwen35Rules>>};
constexpr SplitStage kSeedCoderStages[] = {kStage<Words<kSeedCoderRules>>};
constexpr SplitStage kGpt4oStages[] = {kStage<Words<kGpt4oRules>>};
constexpr SplitStage kTekkenStages[] = {kStage<Words<kTekkenRules>>};
constexpr SplitStage kDeepSeekLlmStages[] = {kStage<Matches<LineBreaks>>,
                                             kStage<Matches<RangeRuns<kDeepSeekLetters, true>>>,
                                             kStage<Matches<RangeRuns<kDeepSeekPunctuation, true>>>,
                                             kStage<TrailingSpaces>,
                                             kStage<Matches<RangeRuns<kDeepSeekCjk, false>>>,
                                             kStage<Matches<Digits<1>>>};
constexpr SplitStage kDeepSeekCoderStages[] = {
    kStage<Matches<LineBreaks>>, kStage<Matches<ClassRuns<kLetter, true>>>,
    kStage<Matches<ClassRuns<kPunctuation, true>>>, kStage<Matches<RangeRuns<kDeepSeekCjk, false>>>,
    kStage<Matches<Digits<1>>>};
constexpr SplitStage kDeepSeekV3Stages[] = {kStage<Matches<Digits<3>>>,
                                            kStage<Matches<RangeRuns<kDeepSeekV3Cjk, false>>>,
                                            kStage<Matches<DeepSeekV3Words>>};
constexpr SplitStage kFalconStages[] = {kStage<Matches<PunctuationRuns<true>>>, kStage<Gpt2Words>,
                                        kStage<Matches<AsciiDigitTriples>>};
constexpr SplitStage kDefaultStages[] = {kStage<Matches<PunctuationRuns<false>>>, kStage<Gpt2Words>,
                                         kStage<Matches<ClassRuns<kNumber, false>>>,
                                         kStage<Matches<AsciiDigitTriples>>};

constexpr PreTokenizer kGpt2{.stages = kGpt2Stages};
constexpr PreTokenizer kSmolLm{.stages = kSmolLmStages};
constexpr PreTokenizer kLlama3{.stages = kLlama3Stages, .ignore_merges = true, .add_bos = true};
constexpr PreTokenizer kCl100k{.stages = kLlama3Stages};
constexpr PreTokenizer kMiniCpm5{.stages = kMiniCpm5Stages, .ignore_merges = true};
constexpr PreTokenizer kQwen2{.stages = kQwen2Stages, .normalize_nfc = true};
constexpr PreTokenizer kQwen2NotComposed{.stages = kQwen2Stages};
constexpr PreTokenizer kQwen35{.stages = kQwen35Stages, .normalize_nfc = true};
constexpr PreTokenizer kSeedCoder{.stages = kSeedCoderStages};
constexpr PreTokenizer kGpt4o{.stages = kGpt4oStages};
constexpr PreTokenizer kTekken{.stages = kTekkenStages, .ignore_merges = true, .add_bos = true};
constexpr PreTokenizer kDeepSeekLlm{.stages = kDeepSeekLlmStages};
constexpr PreTokenizer kDeepSeekCoder{.stages = kDeepSeekCoderStages};
constexpr PreTokenizer kDeepSeekV3{.stages = kDeepSeekV3Stages};
constexpr PreTokenizer kFalcon{.stages = kFalconStages};
constexpr PreTokenizer kDefault{.stages = kDefaultStages};

struct NamedPreTokenizer {
  std::string_view name;
  const PreTokenizer* pre_tokenizer;
};

// Sorted by name. The names are those that llama.cpp's converter writes; the patterns are those of the
// models' tokenizer.json.
constexpr NamedPreTokenizer kPreTokenizers[] = {
    {"a.x-4.0", &kGpt2},
    {"bailingmoe", &kQwen2NotComposed},
    {"bailingmoe2", &kQwen2NotComposed},
    {"chatglm-bpe", &kCl100k},
    {"codeshell", &kSmolLm},
    {"command-r", &kSmolLm},
    {"dbrx", &kCl100k},
    {"deepseek-coder", &kDeepSeekCoder},
    {"deepseek-llm", &kDeepSeekLlm},
    {"deepseek-r1-qwen", &kQwen2NotComposed},
    {"deepseek-v3", &kDeepSeekV3},
    {"default", &kDefault},
    {"exaone", &kSmolLm},
    {"exaone4", &kGpt2},
    {"falcon", &kFalcon},
    {"falcon-h1", &kLlama3},
    {"falcon3", &kLlama3},
    {"gigachat", &kGpt2},
    {"glm4", &kCl100k},
    {"gpt-2", &kGpt2},
    {"gpt-4o", &kGpt4o},
    {"granite-docling", &kGpt2},
    {"grok-2", &kQwen2NotComposed},
    {"hunyuan", &kQwen2NotComposed},
    {"hunyuan-dense", &kDeepSeekV3},
    {"jais", &kGpt2},
    {"joyai-llm", &kDeepSeekV3},
    {"kanana2", &kGpt4o},
    {"kormo", &kQwen2NotComposed},
    {"lfm2", &kLlama3},
    {"llada-moe", &kQwen2NotComposed},
    {"llama-bpe", &kLlama3},
    {"llama-v3", &kLlama3},
    {"llama3", &kLlama3},
    {"llama4", &kGpt4o},
    {"megrez", &kQwen2NotComposed},
    {"mellum", &kGpt2},
    {"mellum2", &kSmolLm},
    {"midm-2.0", &kLlama3},
    {"minerva-7b", &kSmolLm},
    {"minicpm5", &kMiniCpm5},
    {"minimax-m2", &kGpt4o},
    {"mpt", &kGpt2},
    {"olmo", &kGpt2},
    {"phi-2", &kGpt2},
    {"pixtral", &kLlama3},
    {"qwen2", &kQwen2},
    {"qwen35", &kQwen35},
    {"refact", &kSmolLm},
    {"seed-coder", &kSeedCoder},
    {"smaug-bpe", &kCl100k},
    {"smollm", &kSmolLm},
    {"solar-open", &kQwen2NotComposed},
    {"stablelm2", &kQwen2NotComposed},
    {"starcoder", &kSmolLm},
    {"tekken", &kTekken},
    {"trillion", &kGpt2},
};

}  // namespace

const PreTokenizer* FindPreTokenizer(std::string_view name) {
  const auto found =
      std::lower_bound(std::begin(kPreTokenizers), std::end(kPreTokenizers), name,
                       [](const NamedPreTokenizer& p, std::string_view n) { return p.name < n; });
  return found != std::end(kPreTokenizers) && found->name == name ? found->pre_tokenizer : nullptr;
}

std::string KnownPreTokenizers() {
  std::string names;
  for (const NamedPreTokenizer& p : kPreTokenizers) {
    if (!names.empty()) names += ", ";
    names += p.name;
  }
  return names;
}

}  // namespace skipjack
