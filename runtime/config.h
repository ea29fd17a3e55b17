#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "models/registry.h"

namespace longship::runtime {

// The settings of a run, as validated from a run file. The meaning, unit, default and bounds of
// each key stand in one place, the field table (runtime/config_fields.cpp). 0 stands for `auto`
// where a comment says so.
struct Config {
  struct Run {
    std::string name;  // empty: made at the start by rank 0
    std::string directory;
    int64_t seed = 0;
  } run;

  struct Data {
    std::vector<std::string> path;
    std::string dataset;
    std::vector<std::string> inputs;
    std::vector<std::string> targets;
    int64_t window = 0;
    int64_t horizon = 0;
    int64_t stride = 0;
    data::SplitSpec split;
    std::string normalize;
    data::MissingPolicy missing = data::MissingPolicy::kError;
    bool shuffle = true;
    std::string residence;  // auto, device, host
  } data;

  struct Model {
    std::string name;
    models::Options options;
  } model;

  struct Train {
    double epochs = 0;
    int64_t steps = 0;  // 0: from epochs
    int64_t batch_size = 0;
    int64_t micro_batch_size = 0;  // 0: auto
    std::string loss;              // mse, mae, huber, quantile
    double huber_delta = 0;
    std::vector<double> quantiles;
    double clip_norm = 0;  // 0: off
    int64_t max_skipped = 0;
    std::string graph;  // auto, on, off
    double memory_fraction = 1;
  } train;

  struct Optimizer {
    std::string name;  // adamw, sgd
    double lr = 0;
    double weight_decay = 0;
    bool decay_biases = true;
    double beta1 = 0;
    double beta2 = 0;
    double eps = 0;
    double momentum = 0;
    bool shard = false;
  } optimizer;

  struct Schedule {
    std::string name;  // constant, cosine, linear, step
    int64_t warmup_steps = 0;
    double min_lr = 0;
    int64_t step_size = 0;
    double gamma = 0;
  } schedule;

  struct Precision {
    std::string mode;  // auto, fp32, tf32, bf16, fp16
    double init_scale = 0;
    int64_t growth_interval = 0;
  } precision;

  struct Eval {
    double every_epochs = 0;  // 0: off
    int64_t every_steps = 0;  // 0: off
    std::string metric;       // mse, mae
    int64_t patience = 0;     // 0: no early stopping
    int64_t max_windows = 0;  // 0: all
    int64_t batch_size = 0;
    int64_t season = 0;  // rows; 0: auto from the data's step
  } eval;

  struct Comm {
    std::string backend;    // auto, nccl, mpi
    std::string wire;       // fp32, fp16, bf16
    double bucket_mib = 0;  // 0: auto
    int64_t timeout_s = 0;
  } comm;

  struct Checkpoint {
    double every_minutes = 0;  // 0: off
    int64_t every_steps = 0;   // 0: off
    int64_t keep = 0;
    bool at_start = false;
  } checkpoint;

  struct Log {
    std::string level;
    int64_t every_steps = 0;  // 0: auto
    bool sample_order = false;
  } log;

  // The run file's folder, against which relative paths of the file are resolved.
  std::string base_directory;
};

}  // namespace longship::runtime
