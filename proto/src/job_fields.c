/* The table of a job's fields: JOB.json's keys and ranges, and the launcher's options for them.
 * Used by job.c and by launcher/cli. */
#include "proto/job.h"
#include "proto/limits.h"

#define JOB(kind, member) .key = #member, BASE_##kind(proto_job, member)

#define NAMES(function, ...)                                                                       \
    const char *function(int value)                                                                \
    {                                                                                              \
        static const char *const names[] = {__VA_ARGS__};                                          \
        return value >= 0 && (size_t)value < sizeof names / sizeof names[0] ? names[value] : NULL; \
    }

NAMES(proto_loss_on_name, "correction", "all")
NAMES(proto_precision_name, "float32", "tf32", "bfloat16")
NAMES(proto_weights_name, "checkpoint", "int8", "int4")
NAMES(proto_optimizer_name, "adamw", "muon")
NAMES(proto_schedule_name, "constant", "cosine", "linear")
NAMES(proto_save_dtype_name, "float32", "bfloat16")
NAMES(proto_verify_name, "index", "full")
NAMES(proto_timing_name, "overlapped", "bracketed")
NAMES(proto_transport_name, "auto", "shm", "tcp", "zmq")
NAMES(proto_tcp_auth_name, "mac", "encrypt", "off")
NAMES(proto_algorithm_name, "auto", "ring", "tree", "direct", "recursive_doubling",
      "halving_doubling", "two_level", "native")

#define WEEK_MS   (INT64_C(7) * 24 * 3600 * 1000)
#define SEED_MAX  (INT64_C(1) << 52)
#define STEPS_MAX 1000000000

static const base_field rows[] = {
    {JOB(INT, job.version), .least = PROTO_JOB_VERSION, .most = PROTO_JOB_VERSION},
    {JOB(INT, job.world_size), .least = 1, .most = BASE_RANKS_MAX, .option = "ranks", .value = "N",
     .help = "processes (2; 1 for generate)", .group = "The job",
     .marks = PROTO_FIELD_PROGRAM | PROTO_FIELD_RANKS},
    {JOB(ENUM, job.mode), .name_of = proto_mode_name, .unlisted = 1 + PROTO_MODE_PROGRAM,
     .option = "mode", .value = "MODE",
     .help = "ddp-cpu: train; pp-cpu: train in a pipeline, each rank some layers; generate: answer "
             "prompts; tp-cpu: the same with one model cut between "
             "the ranks; ddp-nccl, tp-nccl: on GPUs; bench-nccl; gate-check",
     .marks = PROTO_FIELD_PROGRAM | PROTO_FIELD_MODE},
    {JOB(INT, job.seed), .least = 0, .most = SEED_MAX, .option = "seed", .value = "N",
     .help = "of the parameters, the data's order and what is drawn; generate, tp-*: 35200",
     .marks = PROTO_FIELD_SEED},
    {JOB(PATH, output.directory), .option = "out", .value = "DIR",
     .help = "where the record goes (experiments/35-ddp-cpu; other modes have their own; generate "
             "has one beside --checkpoint only)"},
    {JOB(INT, output.trace), .optional = true, .least = 0, .most = PROTO_TRACE_STEPS_MAX,
     .option = "trace", .value = "N",
     .help = "ddp-cpu, pp-cpu, generate, tp-cpu: OUT/trace.json has a timeline of the last N "
             "steps, for "
             "ui.perfetto.dev (3; 0: none)",
     .marks = PROTO_FIELD_TRACE},
    {JOB(PATH, model.checkpoint), .option = "checkpoint", .value = "DIR",
     .help = "start from the model of an earlier run, with a fresh optimizer and the data from its "
             "beginning (generate: the default is --out; tp-*: experiments/35-ddp-cpu)"},
    {JOB(DIGEST, model.checkpoint_sha256)},
    {JOB(ENUM, model.verify), .name_of = proto_verify_name, .option = "verify", .value = "HOW",
     .help = "of a checkpoint, when JOB.json names it by its digest: index: names, types, shapes "
             "and lengths; full: every byte"},
    {JOB(PATH, model.adapter), .optional = true, .option = "adapter", .value = "DIR",
     .help = "ddp-cpu, generate, tp-cpu: adapters (LoRA) on top of the checkpoint, of --lora or of "
             "Hugging Face's peft; ddp-cpu trains them further, as --lora",
     .marks = PROTO_FIELD_TRAINS | PROTO_FIELD_ANSWERS},
    {JOB(DIGEST, model.adapter_sha256), .optional = true},
    {JOB(PATH, model.draft), .optional = true, .option = "draft", .value = "DIR",
     .help = "generate, tp-cpu: a small checkpoint of the same tokenizer, which drafts the tokens "
             "that are checked together; no text changes",
     .marks = PROTO_FIELD_ANSWERS_ON_CPUS},
    {JOB(DIGEST, model.draft_sha256), .optional = true},
    {JOB(BOOL, infer.eval), .option = "eval",
     .help = "at the end, loss and exact-match accuracy on the held-out sentences",
     .marks = PROTO_FIELD_TRAINS | PROTO_FIELD_ANSWERS},
    {JOB(INT, infer.eval_every), .least = 0, .most = 1000000000, .option = "eval-every",
     .value = "N",
     .help = "held-out loss and accuracy every N steps as well, in pp-cpu the loss alone; implies "
             "--eval (0: at the end only)",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(PATH, infer.prompts)}, /* --prompts is the launcher's: it may be "-" */
    {JOB(DIGEST, infer.prompts_sha256)},
    {JOB(BOOL, infer.requests), .optional = true},
    {JOB(BOOL, infer.unrecorded), .optional = true},
    {JOB(BOOL, infer.no_prefix_cache), .optional = true, .option = "no-prefix-cache",
     .help = "tp-cpu, with --serve or --prompts -: compute every prompt from its beginning",
     .marks = PROTO_FIELD_TENSOR_PARALLEL},
    {JOB(INT, infer.max_new_tokens), .least = 1, .most = PROTO_NEW_TOKENS_MAX,
     .option = "max-new-tokens", .value = "N",
     .help = "generate, tp-*: at most so many tokens a text",
     .marks = PROTO_FIELD_ANSWERS | PROTO_FIELD_EVALUATES},
    {JOB(INT, infer.max_num_seqs), .least = 1, .most = PROTO_SEQUENCES_MAX,
     .option = "max-num-seqs", .value = "N", .help = "generate, tp-*: so many texts at a time",
     .marks = PROTO_FIELD_ANSWERS | PROTO_FIELD_EVALUATES},
    {JOB(INT, infer.cache_tokens), .optional = true, .least = 0, .most = PROTO_CACHE_TOKENS_MAX,
     .option = "cache-tokens", .value = "N",
     .help =
         "generate, tp-*: room in the cache for N tokens, of all texts together, which wait for "
         "it (0: for --max-num-seqs whole contexts)",
     .marks = PROTO_FIELD_ANSWERS},
    {JOB(ENUM, infer.weights), .optional = true, .name_of = proto_weights_name, .option = "weights",
     .value = "TYPE",
     .help = "generate, tp-cpu: how matrices are held: checkpoint: in float32, or in "
             "bfloat16 if all are so; int8, int4: in 8 or 4 bits, with a scale for every 32 "
             "(checkpoint)",
     .marks = PROTO_FIELD_ANSWERS},
    {JOB(INT, infer.speculate), .optional = true, .least = 0, .most = PROTO_DRAFT_TOKENS_MAX,
     .option = "speculate", .value = "N",
     .help = "generate, tp-cpu: draft up to N tokens a step from what followed the same tokens "
             "before, or by --draft, and check them together; no text changes (0; 4 with --draft)",
     .marks = PROTO_FIELD_ANSWERS_ON_CPUS},
    /* --logprobs N is the launcher's, and one less */
    {JOB(INT, infer.logprob_count), .optional = true, .least = 0, .most = PROTO_LOGPROBS_MAX},
    {JOB(BOOL, infer.ignore_eos), .option = "ignore-eos",
     .help = "generate, tp-*: go on behind the end of a text", .marks = PROTO_FIELD_ANSWERS},
    {JOB(BOOL, infer.special_tokens), .optional = true, .option = "special-tokens",
     .help = "generate, tp-*: prompts may contain the tokenizer's special tokens, as "
             "<|im_start|>",
     .marks = PROTO_FIELD_ANSWERS},
    {JOB(BOOL, infer.chat), .optional = true, .option = "chat",
     .help = "generate, tp-*: a prompt is a message of a user, and is answered in the form of the "
             "checkpoint's chat template",
     .marks = PROTO_FIELD_ANSWERS},
    {JOB(BOOL, infer.no_thinking), .optional = true, .option = "no-thinking",
     .help = "generate, tp-*: in chats, a model that thinks answers without thoughts",
     .marks = PROTO_FIELD_ANSWERS},
    {JOB(BOOL, infer.baseline), .option = "baseline",
     .help = "tp-*: the same prompts also on one rank, and on a whole model per rank, to compare"},
    {JOB(TEXT, infer.curve), .optional = true, .option = "curve", .value = "LIST",
     .help = "tp-*: also time a token of two-layer models of these widths, on one rank and on "
             "all, as in 64,256,1024,4096"},
    {JOB(REAL, infer.temperature), .min = 0, .max = PROTO_TEMPERATURE_MAX, .option = "temperature",
     .value = "X",
     .help = "generate, tp-*: draw tokens at this temperature, 0.001 to 1000 (0: the most "
             "probable one)",
     .marks = PROTO_FIELD_ANSWERS},
    {JOB(INT, infer.top_k), .least = 0, .most = PROTO_TOP_K_MAX, .option = "top-k", .value = "K",
     .help = "with --temperature: of the K most probable tokens (0: of all)",
     .marks = PROTO_FIELD_ANSWERS},
    {JOB(REAL, infer.top_p), .min = 0, .max = 1, .above = true, .option = "top-p", .value = "P",
     .help = "with --temperature: of the fewest tokens that have probability P together (1: of "
             "all)",
     .marks = PROTO_FIELD_ANSWERS},
    {JOB(REAL, infer.min_p), .optional = true, .min = 0, .max = 1, .option = "min-p", .value = "P",
     .help = "with --temperature: of the tokens that have P times the largest probability or more "
             "(0: of all)",
     .marks = PROTO_FIELD_ANSWERS},
    {JOB(REAL, infer.presence_penalty), .optional = true, .min = -PROTO_PENALTY_MAX,
     .max = PROTO_PENALTY_MAX, .option = "presence-penalty", .value = "X",
     .help = "generate, tp-*: taken off the logits of tokens that the text has, -2 to 2 (0)",
     .marks = PROTO_FIELD_ANSWERS},
    {JOB(REAL, infer.frequency_penalty), .optional = true, .min = -PROTO_PENALTY_MAX,
     .max = PROTO_PENALTY_MAX, .option = "frequency-penalty", .value = "X",
     .help = "generate, tp-*: the same, as often as the text has the token, -2 to 2 (0)",
     .marks = PROTO_FIELD_ANSWERS},
    {JOB(REAL, infer.repetition_penalty), .min = PROTO_REPETITION_MIN, .max = PROTO_REPETITION_MAX,
     .option = "repetition-penalty", .value = "X",
     .help = "generate, tp-*: logits of tokens that the prompt or the text has are divided by X, "
             "negative ones multiplied, 0.1 to 10 (1)",
     .marks = PROTO_FIELD_ANSWERS},
    {JOB(INT, infer.sampling_seed), .least = 0, .most = SEED_MAX, .option = "sampling-seed",
     .value = "N", .help = "with --temperature: of what is drawn (0: that of --seed)",
     .marks = PROTO_FIELD_ANSWERS},

    {JOB(PATH, data.train), .option = "data", .value = "FILE",
     .help =
         "FILE.jsonl, FILE.ndjson or FILE.json: lines with a \"text\", a \"prompt\" and a "
         "\"completion\", or \"messages\"; FILE.safetensors: tokens, from tokenizer-encode; any "
         "other: a plain text (the grammar corpus)",
     .group = "Data", .marks = PROTO_FIELD_TRAINS},
    {JOB(DIGEST, data.train_sha256)},
    {JOB(PATH, data.heldout), .option = "heldout", .value = "FILE",
     .help =
         "the same for --eval; of what is no wrong and right sentence only the loss is measured "
         "(the corpus's held-out sentences)",
     .marks = PROTO_FIELD_EVALUATES},
    {JOB(DIGEST, data.heldout_sha256)},
    {JOB(PATH, data.tokenizer), .option = "tokenizer", .value = "FILE",
     .help = "tokenizer.json (the corpus's)"},
    {JOB(DIGEST, data.tokenizer_sha256)},
    {JOB(ENUM, data.loss_on), .name_of = proto_loss_on_name, .option = "loss-on", .value = "WHAT",
     .help = "correction: the right sentence only, the completion, or what the assistant says; "
             "all"},
    {JOB(TEXT, data.chat_date), .optional = true, .text_ok = proto_chat_date_ok}, /* --chat-date */
    {JOB(BOOL, data.windows), .optional = true, .option = "windows",
     .help =
         "cut texts into windows of --context tokens, in place of leaving out what is longer (a "
         "plain text always is, and so are tokens)",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(BOOL, data.plain), .optional = true},
    {JOB(BOOL, data.heldout_plain), .optional = true},
    {JOB(BOOL, data.tokens), .optional = true},
    {JOB(BOOL, data.heldout_tokens), .optional = true},

    {JOB(INT, model.vocab_size), .least = 2, .most = PROTO_VOCAB_MAX},
    {JOB(INT, model.width), .least = 1, .most = PROTO_WIDTH_MAX, .option = "width", .value = "N",
     .help = "of the embedding", .group = "The model", .marks = PROTO_FIELD_SHAPE},
    {JOB(INT, model.layers), .least = 1, .most = PROTO_LAYERS_MAX, .option = "layers", .value = "N",
     .help = "", .marks = PROTO_FIELD_SHAPE},
    {JOB(INT, model.heads), .least = 1, .most = 1024, .option = "heads", .value = "N",
     .help = "attention heads", .marks = PROTO_FIELD_SHAPE},
    {JOB(INT, model.experts), .optional = true, .least = 0, .most = PROTO_EXPERTS_MAX,
     .option = "experts", .value = "E",
     .help =
         "ddp-cpu: a new model is a Mixtral, whose blocks have E experts in place of one MLP (0: "
         "a GPT-2)",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(INT, model.experts_per_token), .optional = true, .least = 0, .most = PROTO_EXPERTS_MAX,
     .option = "experts-per-token", .value = "K", .help = "to how many of them a token goes (0: 2)",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(REAL, model.router_loss), .optional = true, .min = -1, .max = 1000,
     .option = "router-loss", .value = "C",
     .help = "with experts: how much of the loss that spreads tokens evenly is added; -1: none (0: "
             "what the checkpoint says, or 0.01)",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(INT, model.context), .least = 2, .most = PROTO_CONTEXT_MAX, .option = "context",
     .value = "N", .help = "tokens a sentence may have; generate, tp-*: a text, up to the model's",
     .marks = PROTO_FIELD_CONTEXT},

    {JOB(INT, train.steps), .least = 1, .most = STEPS_MAX, .option = "steps", .value = "N",
     .help = "", .group = "Training", .marks = PROTO_FIELD_TRAINS},
    {JOB(INT, train.batch), .least = 1, .most = 65536, .option = "batch", .value = "N",
     .help = "rows of --context tokens per rank and micro-batch", .marks = PROTO_FIELD_TRAINS},
    {JOB(INT, train.micro_batches), .least = 1, .most = PROTO_MICRO_BATCHES_MAX,
     .option = "micro-batches", .value = "N", .help = "per rank and step",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(REAL, train.learning_rate), .min = 0, .max = 100, .option = "lr", .value = "X",
     .help = "learning rate", .marks = PROTO_FIELD_TRAINS},
    {JOB(REAL, train.learning_rate_min), .min = 0, .max = 100, .option = "lr-min", .value = "X",
     .help = "of the last step, with --schedule cosine or linear", .marks = PROTO_FIELD_TRAINS},
    {JOB(ENUM, train.schedule), .name_of = proto_schedule_name, .option = "schedule",
     .value = "NAME", .help = "behind the warm-up: constant, cosine, linear",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(ENUM, train.optimizer), .optional = true, .name_of = proto_optimizer_name,
     .option = "optimizer", .value = "NAME",
     .help = "adamw, or in ddp-cpu and pp-cpu muon: the matrices of the blocks by Muon, all else "
             "by AdamW "
             "(adamw)",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(REAL, train.muon_momentum), .optional = true, .min = 0, .max = 1, .below = true,
     .option = "muon-momentum", .value = "X", .help = "with --optimizer muon (0: 0.95)",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(INT, train.warmup_steps), .least = 0, .most = STEPS_MAX, .option = "warmup", .value = "N",
     .help = "steps of linear warm-up", .marks = PROTO_FIELD_TRAINS},
    {JOB(REAL, train.weight_decay), .min = 0, .max = 100, .option = "weight-decay", .value = "X",
     .help = "", .marks = PROTO_FIELD_TRAINS},
    {JOB(REAL, train.beta1), .min = 0, .max = 1, .below = true, .option = "beta1", .value = "X",
     .help = "", .marks = PROTO_FIELD_TRAINS},
    {JOB(REAL, train.beta2), .min = 0, .max = 1, .below = true, .option = "beta2", .value = "X",
     .help = "", .marks = PROTO_FIELD_TRAINS},
    {JOB(REAL, train.epsilon), .min = 0, .max = 1, .above = true},
    {JOB(REAL, train.clip_norm), .min = 0, .max = 1e9, .option = "clip", .value = "X",
     .help = "largest norm of the gradient; 0: no clipping", .marks = PROTO_FIELD_TRAINS},
    {JOB(REAL, train.dropout), .optional = true, .min = 0, .max = 1, .below = true,
     .option = "dropout", .value = "P",
     .help = "ddp-cpu, pp-cpu: drop elements of what the embedding, attention and MLPs add to the "
             "residual stream with probability P, in training alone (0)",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(INT, train.local_steps), .optional = true, .least = 0, .most = STEPS_MAX,
     .option = "local-steps", .value = "H",
     .help = "ddp-cpu: each rank takes H steps alone, and then the ranks exchange what they have "
             "changed (1: gradients are added up in each step)",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(REAL, train.outer_learning_rate), .optional = true, .min = 0, .max = 100,
     .option = "outer-lr", .value = "X",
     .help = "with --local-steps: learning rate of the step behind their exchange (1)",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(REAL, train.outer_momentum), .optional = true, .min = 0, .max = 1, .below = true,
     .option = "outer-momentum", .value = "X",
     .help = "with --local-steps: Nesterov's momentum of that step (0; both so: the mean)",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(INT, train.save_every), .least = 0, .most = STEPS_MAX, .optional = true,
     .option = "save-every", .value = "N",
     .help = "a checkpoint in OUT/checkpoints every N steps and at the end (0: none)",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(INT, train.keep), .least = 1, .most = STEPS_MAX, .optional = true, .option = "keep",
     .value = "N", .help = "so many checkpoints, the newest ones (2)", .marks = PROTO_FIELD_TRAINS},
    {JOB(BOOL, train.keep_best), .optional = true, .option = "keep-best",
     .help = "with --eval-every: the model at the end is that of the evaluation with the lowest "
             "held-out loss",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(INT, train.patience), .optional = true, .least = 0, .most = STEPS_MAX,
     .option = "patience", .value = "N",
     .help = "stop early, after N evaluations in a row without a lower held-out loss; implies "
             "--keep-best (0: never)",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(ENUM, train.save_dtype), .optional = true, .name_of = proto_save_dtype_name,
     .option = "save-dtype", .value = "TYPE",
     .help = "of the model at the end: float32, or bfloat16, rounded, in half the bytes "
             "(checkpoints have float32)",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(BOOL, train.recompute), .optional = true, .option = "recompute",
     .help = "keep only each block's input for backward, and compute the rest again: less memory, "
             "about a fifth more time, the same bits",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(BOOL, train.resume), .optional = true, .option = "resume",
     .help = "go on from the newest checkpoint in OUT, with the same bits; without one, from the "
             "beginning",
     .marks = PROTO_FIELD_TRAINS},

    {JOB(INT, lora.rank), .optional = true, .least = 0, .most = PROTO_LORA_RANK_MAX,
     .option = "lora", .value = "RANK",
     .help = "ddp-cpu: freeze the model of --checkpoint, and train adapters of this rank (0: none)",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(REAL, lora.alpha), .optional = true, .min = 0, .max = 1e6, .option = "lora-alpha",
     .value = "X", .help = "adapters add their product times X / RANK (0: 2 x RANK)",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(TEXT, lora.targets), .optional = true, .option = "lora-targets", .value = "LIST",
     .help =
         "which linear layers have adapters, as in q_proj,v_proj, or all-linear (q_proj,v_proj; "
         "GPT-2: c_attn)",
     .marks = PROTO_FIELD_TRAINS},
    {JOB(BOOL, lora.merge), .optional = true, .option = "lora-merge",
     .help = "write the model with its adapters in it, and these into DIR/adapter",
     .marks = PROTO_FIELD_TRAINS},

    {JOB(ENUM, parallel.transport), .name_of = proto_transport_name, .option = "transport",
     .value = "NAME", .help = "auto, shm, tcp, zmq (auto: shm inside a host, tcp between hosts)",
     .group = "Parallelism", .marks = PROTO_FIELD_PROGRAM},
    {JOB(TEXT, parallel.interface), .option = "interface", .value = "WHICH",
     .help = "that tcp and zmq listen on: a name, an address, a network (10.0.0.0/8) or names to "
             "leave out (^docker0,lo) (that of the route to the launcher)",
     .marks = PROTO_FIELD_PROGRAM | PROTO_FIELD_EACH_HOST},
    {JOB(ENUM, parallel.tcp_auth), .name_of = proto_tcp_auth_name, .option = "tcp-auth",
     .value = "HOW", .help = "protects frames: mac, encrypt, off; with zmq, off is plain",
     .marks = PROTO_FIELD_PROGRAM},
    {JOB(ENUM, parallel.algorithm), .name_of = proto_algorithm_name, .option = "algorithm",
     .value = "NAME",
     .help = "auto, ring, tree, direct, recursive_doubling, halving_doubling, two_level; on GPUs: "
             "auto, direct, native",
     .marks = PROTO_FIELD_PROGRAM},
    {JOB(ENUM, parallel.timing), .name_of = proto_timing_name, .option = "timing", .value = "NAME",
     .help = "overlapped: all-reduce during backward; bracketed: after it, all at once",
     .marks = PROTO_FIELD_DATA_PARALLEL},
    {JOB(INT, parallel.bucket_bytes), .least = 1024, .most = 1 << 30, .option = "bucket-bytes",
     .value = "N", .help = "of gradients in one all-reduce of replicas; ddp-nccl: 26214400",
     .marks = PROTO_FIELD_BUCKETS | PROTO_FIELD_DATA_PARALLEL},
    {JOB(INT, parallel.threads_per_rank), .least = 1, .most = 1024, .option = "threads-per-rank",
     .value = "N", .help = "", .marks = PROTO_FIELD_PROGRAM},
    {JOB(ENUM, parallel.pipeline), .optional = true, .name_of = proto_pipeline_name,
     .option = "pipeline", .value = "NAME",
     .help = "pp-cpu: the order of a stage's forwards and backwards: gpipe, 1f1b, interleaved, "
             "zb-h1"},
    {JOB(INT, parallel.stages), .optional = true, .least = 0, .most = PROTO_PIPELINE_STAGES_MAX,
     .option = "stages", .value = "N",
     .help =
         "pp-cpu: stages of one pipeline; if there are more ranks, there are several pipelines, "
         "each with its own part of the data (0: as many as there are ranks for)"},
    {JOB(INT, parallel.chunks), .optional = true, .least = 0, .most = PROTO_PIPELINE_CHUNKS_MAX,
     .option = "chunks", .value = "N",
     .help = "pp-cpu, with --pipeline interleaved: chunks of layers in each stage (0: 2)"},
    {JOB(INT, parallel.tensor), .optional = true, .least = 0, .most = PROTO_TENSOR_RANKS_MAX,
     .option = "tensor", .value = "N",
     .help = "pp-cpu: ranks that share the layers of each stage, tensor parallel (0: 1)"},
    {JOB(INT, parallel.context_ranks), .optional = true, .least = 0,
     .most = PROTO_CONTEXT_RANKS_MAX, .option = "context-ranks", .value = "N",
     .help = "ddp-cpu, pp-cpu: ranks, or pipelines, that share the tokens of each batch, context "
             "parallel (0: 1)"},
    {JOB(INT, parallel.expert_ranks), .optional = true, .least = 0, .most = PROTO_EXPERT_RANKS_MAX,
     .option = "expert-ranks", .value = "N",
     .help = "ddp-cpu, with experts: ranks that have some whole experts of each layer each, expert "
             "parallel (0: 1)"},
    {JOB(INT, parallel.zero), .optional = true, .least = 0, .most = PROTO_ZERO_PARAMETERS,
     .option = "zero", .value = "STAGE",
     .help =
         "ddp-cpu: what is sharded between the ranks: 0: nothing; 1: the optimizer's moments; 2: "
         "gradients too; 3: parameters too"},
    {JOB(SECONDS, parallel.timeout_ms), .least = 1, .most = WEEK_MS, .option = "timeout",
     .value = "SECONDS", .help = "of one collective", .marks = PROTO_FIELD_PROGRAM},
    {JOB(SECONDS, parallel.join_timeout_ms), .least = 1, .most = WEEK_MS, .option = "join-timeout",
     .value = "SECONDS", .help = "until all ranks, and before them all hosts, have joined",
     .marks = PROTO_FIELD_PROGRAM | PROTO_FIELD_EACH_HOST},

    {JOB(TEXT, gpu.devices), .optional = true, .option = "devices", .value = "LIST",
     .group = "Modes on GPUs (ddp-nccl, tp-nccl)",
     .help = "a GPU for each rank, by its number of launcher gpus or its UUID, as in 0,2 (rank i "
             "has GPU i)",
     .marks = PROTO_FIELD_GPUS},
    {JOB(PATH, gpu.libraries), .optional = true, .option = "cuda-libs", .value = "DIR",
     .help = "where CUDA's libraries are looked for first", .marks = PROTO_FIELD_GPUS},
    {JOB(ENUM, gpu.precision), .optional = true, .name_of = proto_precision_name,
     .option = "precision", .value = "NAME",
     .help = "of products: float32, tf32, bfloat16 (with float32 parameters)"},
    {JOB(BOOL, gpu.exact), .optional = true, .option = "exact",
     .help = "our own kernels in place of cublasLt: the CPU's bits", .marks = PROTO_FIELD_GPUS},
    {JOB(BOOL, gpu.nccl_native), .optional = true, .option = "nccl-native",
     .help = "let NCCL use all its algorithms: sums may differ from run to run",
     .marks = PROTO_FIELD_GPUS},
    {JOB(TEXT, bench.words), .optional = true, .option = "bench", .value = "FLAGS",
     .help = "bench-nccl: what coll-bench --transport nccl is called with, as in 'all_reduce -b 4 "
             "-e 1M'"},
    {JOB(BOOL, gpu.mixed), .optional = true, .option = "mixed-gpus",
     .help = "ranks may have GPUs of different kinds", .marks = PROTO_FIELD_GPUS},
    {JOB(BOOL, gpu.shared), .optional = true, .option = "share-gpu",
     .help = "for tests only: all ranks on one GPU, 20 steps at most", .marks = PROTO_FIELD_GPUS},
};

const base_fields proto_job_fields = {
    .rows = rows,
    .count = sizeof rows / sizeof rows[0],
    .what = "JOB.json",
};
