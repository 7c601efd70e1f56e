// Skipjack inside your own program: load a GGUF model and generate, without a server.
//
//   skipjack::embed::Error error;
//   skipjack::embed::LoadOptions options;
//   options.path = "model.gguf";
//   auto model = skipjack::embed::Model::Load(options, &error);
//   if (!model) fail(error.message);
//   auto completion = model->Generate({.prompt = "Once upon a time"}, [](const skipjack::embed::Piece& piece)
//   {
//     std::cout << piece.text << std::flush;
//     return true;
//   });
//
// All calls may come from any number of threads; requests of different threads share the model's steps.
// Nothing here throws on purpose, and nothing needs another library's types.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace skipjack::embed {

// Codes are gRPC's: 3 for a bad argument, 4 for a passed deadline, 8 for a full queue, 13 for a failure in
// here.
struct Error {
  int code = 0;  // 0: none
  std::string message;

  explicit operator bool() const { return code != 0; }
};

struct LoadOptions {
  std::string path;              // a .gguf file, a part of a split set, or its folder
  std::string compute = "auto";  // auto f32 bf16 int8
  std::string isa = "auto";      // auto generic avx2 avx512
  int threads = 0;               // 0: what the machine allows
  int context_length = 0;        // 0: the model's own
  std::int64_t kv_memory_bytes =
      0;  // 0: enough for max_sequences full contexts, at most a quarter of the memory
  std::string kv_dtype = "auto";  // auto f32 f16 bf16
  bool prefix_cache = true;
  int max_sequences = 8;           // generate at the same time; others wait
  int max_batch_tokens = 512;      // of one step
  int max_queued = 1024;           // waiting requests beyond which new ones are refused
  std::string chat_template_path;  // replaces the model's own
  // Which part of loading is done: fraction in [0, 1]. Called on the loading thread.
  std::function<void(const std::string& phase, double fraction)> on_progress;
};

struct Sampling {
  float temperature = 1.0f;  // 0: always the likeliest token
  int top_k = 0;             // 0: off
  float top_p = 1.0f;
  float min_p = 0.0f;
  float typical_p = 1.0f;
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  std::vector<std::pair<std::int32_t, float>> logit_bias;
  std::optional<std::uint64_t> seed;  // absent: a new one for each request
  int max_tokens = 0;                 // 0: the rest of the context
  int min_tokens = 0;
  bool ignore_eos = false;
  std::vector<std::int32_t> stop_token_ids;
  std::vector<std::string> stop;  // the output ends before the first of them
  bool include_stop_string = false;
};

struct Message {
  std::string role;  // system, user, assistant
  std::string content;
};

// Exactly one of prompt, tokens and messages is the input. Only the model's chat template turns text into
// control tokens; a prompt or a message never does, whatever it spells.
struct Request {
  std::string prompt;
  std::vector<std::int32_t> tokens;
  std::vector<Message> messages;
  Sampling sampling;
  std::optional<double> timeout_seconds;  // for the whole request
};

// A part of the output. Text is valid UTF-8; `tokens` are those whose text ended inside it.
struct Piece {
  std::string text;
  std::vector<std::int32_t> tokens;
};

enum class FinishReason {
  kStop,    // the model's end, a stop id or a stop string
  kLength,  // max_tokens
  kFailed,  // see error
};

struct Completion {
  Error error;
  FinishReason reason = FinishReason::kFailed;
  std::string text;
  std::vector<std::int32_t>
      tokens;               // whose text is in `text`, control tokens among them; not the one that ended it
  std::string stop_string;  // the one that matched
  int prompt_tokens = 0;
  int cached_tokens = 0;     // of the prompt, taken from earlier requests
  int generated_tokens = 0;  // the one that ended it among them
  double queue_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
};

// A request under way. Not thread-safe, except Cancel().
class Generation {
 public:
  ~Generation();  // cancels what is still under way
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // Waits for the next piece; false when there is none any more.
  bool Next(Piece* piece);
  // Idempotent; the pieces so far still come.
  void Cancel();
  // Waits for the end. The text is that of all pieces.
  Completion Finish();

 private:
  friend class Model;
  friend class GenerationSink;
  struct State;
  explicit Generation(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

struct ModelInfo {
  std::string architecture;
  std::string description;
  int context_length = 0;
  int vocabulary = 0;
  bool has_chat_template = false;
};

class Model {
 public:
  // Takes seconds; null with `error` filled when it fails. `error` may be null.
  static std::unique_ptr<Model> Load(const LoadOptions& options, Error* error);
  ~Model();  // generations still under way go on until they end or are dropped
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Null with `error` filled when the request is refused.
  std::unique_ptr<Generation> Start(const Request& request, Error* error);
  // Start and Finish. `on_piece` runs on the caller's thread; false cancels.
  Completion Generate(const Request& request, const std::function<bool(const Piece&)>& on_piece = {});

  std::optional<std::vector<std::int32_t>> Tokenize(const std::string& text, Error* error) const;
  std::string Detokenize(const std::vector<std::int32_t>& tokens) const;
  ModelInfo info() const;

 private:
  struct State;
  explicit Model(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace skipjack::embed
