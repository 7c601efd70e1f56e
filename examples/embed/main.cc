// Generates from a prompt and prints the answer as it comes.
//
//   embed_example MODEL.gguf "Once upon a time" [MAX_TOKENS]
#include <cstdlib>
#include <iostream>

#include "skipjack/skipjack.h"

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::cerr << "usage: " << argv[0] << " MODEL.gguf PROMPT [MAX_TOKENS]\n";
    return 2;
  }
  skipjack::embed::LoadOptions options;
  options.path = argv[1];
  options.on_progress = [](const std::string& phase, double) { std::cerr << phase << "\n"; };
  skipjack::embed::Error error;
  const auto model = skipjack::embed::Model::Load(options, &error);
  if (!model) {
    std::cerr << "cannot load: " << error.message << "\n";
    return 1;
  }

  skipjack::embed::Request request;
  request.prompt = argv[2];
  request.sampling.temperature = 0.0f;
  request.sampling.max_tokens = argc == 4 ? std::atoi(argv[3]) : 64;
  const auto completion = model->Generate(request, [](const skipjack::embed::Piece& piece) {
    std::cout << piece.text << std::flush;
    return true;
  });
  std::cout << "\n";
  if (completion.error) {
    std::cerr << "failed: " << completion.error.message << "\n";
    return 1;
  }
  std::cerr << completion.prompt_tokens << " prompt tokens, " << completion.generated_tokens << " generated, "
            << completion.prefill_seconds + completion.decode_seconds << " s\n";
  return 0;
}
