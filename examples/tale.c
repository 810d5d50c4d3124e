/* The C API in one piece: load a model, read a prompt, print what it makes of it.
 *   tale MODEL.gguf "Once upon a time" [N_TOKENS] */
#include <sluice/sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(sluice_code code) {
  if (code == SLUICE_OK) return;
  fprintf(stderr, "error: %s\n", sluice_last_error());
  exit(1);
}

int main(int argc, char** argv) {
  if (argc < 3) return fputs("usage: tale MODEL.gguf PROMPT [N_TOKENS]\n", stderr), 2;
  sluice_engine* engine;
  sluice_sequence* sequence;
  sluice_info info = {sizeof info};
  check(sluice_load(argv[1], NULL, &engine));
  check(sluice_get_info(engine, &info));
  check(sluice_sequence_new(engine, &sequence));

  int32_t ids[1024], id = 0;
  size_t n_ids, n_bytes;
  float* logits = malloc(info.n_vocab * sizeof *logits);
  check(sluice_tokenize(engine, argv[2], strlen(argv[2]), 0, ids, 1024, &n_ids));
  fputs(argv[2], stdout);
  for (int i = 0, n = argc > 3 ? atoi(argv[3]) : 100; i < n; ++i) {
    sluice_input input = {sequence, i == 0 ? ids : &id, i == 0 ? n_ids : 1, SLUICE_LOGITS_LAST};
    check(sluice_step(engine, &input, 1, logits, info.n_vocab, NULL));
    id = 0; /* the most probable token; sluice_sampler_sample() draws */
    for (uint32_t v = 1; v < info.n_vocab; ++v) id = logits[v] > logits[id] ? (int32_t)v : id;
    if (sluice_is_end(engine, id)) break;
    char piece[256];
    check(sluice_detokenize(engine, &id, 1, 0, piece, sizeof piece, &n_bytes));
    fwrite(piece, 1, n_bytes < sizeof piece ? n_bytes : sizeof piece, stdout);
  }
  puts("");
  free(logits);
  sluice_sequence_free(sequence);
  sluice_free(engine);
  return 0;
}
