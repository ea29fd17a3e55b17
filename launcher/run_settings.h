#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/config.h"

namespace longship::launcher {

// Throws ConfigError where `--resume none` meets the run in `root`.
void refuse_to_overwrite(const std::string& root, const std::string& resume);

// A run goes on with the settings that it was started with, but for those that may change. `where`
// names the run in the error; `chosen` is what `micro_batch_size: auto` became there, 0 where that
// is not known. Returns those that did change, as "key (old there, new now)"; throws ConfigError
// for those that may not, with a way out.
std::vector<std::string> compare_with(
    const std::string& where, const runtime::Config& stored, int64_t chosen,
    const runtime::Config& given, const std::string& way_out = "another run.name for a new run");

// The settings of the run that wrote a checkpoint, from the scalars of its state.
runtime::Config settings_of(const std::string& checkpoint, const nlohmann::json& scalars);
// The micro-batch size of that run.
int64_t micro_batch_size_of(const nlohmann::json& scalars);

// As compare_with(), for a run that starts from a checkpoint of another one, with a sample order or
// a normalisation of its own. Where the data lie may differ; their fingerprint is compared later.
void compare_with_checkpoint(const std::string& checkpoint, const nlohmann::json& scalars,
                             const runtime::Config& given);

// The path that --resume names, in full; for auto and none what the run was started from before.
std::string started_from(const std::string& resume, const std::string& before);

}  // namespace longship::launcher
