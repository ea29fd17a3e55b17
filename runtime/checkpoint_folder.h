#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint_files.h"

namespace longship::runtime {

// The folder runs/NAME/checkpoints:
//
//   step-000001200/    a whole checkpoint
//   latest, best       relative symbolic links to two of them
//   step-….bad         one that did not verify and was set aside
//   step-….abandoned   one of later steps, from before the run went back to an older one
//   .partial-…         being written; or left by a job that was killed
//   .replaced-…        the older checkpoint of a step that is being saved anew
//   .removed-…         being removed

// "step-000001200"
std::string checkpoint_name(int64_t step);
// The step of such a name; nullopt for any other name. More digits than nine are fine.
std::optional<int64_t> step_of(std::string_view name);

// One entry of the folder that is, or was, a checkpoint.
struct CheckpointEntry {
  std::string name;
  std::string path;
  int64_t step = 0;
  bool latest = false;
  bool best = false;
};

// What a folder holds, by rising step. Nothing is opened.
struct CheckpointListing {
  std::vector<CheckpointEntry> checkpoints;
  std::vector<std::string> set_aside;  // names that begin with "step-" but are no step
  std::vector<std::string> leftovers;  // names of temporary folders
};

// Empty when the folder does not exist. Throws CheckpointError when it cannot be read.
CheckpointListing list_checkpoints(const std::string& folder);

enum class Prefer { kBest, kLatest };

// The checkpoint's folder that a user's path means: the checkpoint itself, a link to one, a run
// folder or its checkpoints folder. For the latter two: the best one (kBest, where there is one),
// else `latest`, else the one of the highest step. Throws CheckpointError in one line that says
// what was expected and what the path looks like.
std::string resolve_checkpoint(const std::string& path, Prefer prefer);

// What is wrong with `latest` of a run folder or a checkpoints folder, which resolve_checkpoint()
// passes over, in a sentence; "" where it is well, not there, or `path` is neither.
std::string problem_with_latest(const std::string& path);

// "a Python pickle", "a ZIP archive, such as a PyTorch .pt file", "an empty file", ... : what a
// path looks like, without reading more than its first bytes.
std::string describe_path(const std::string& path);

// Which of `steps` retention removes: all but the `keep` highest, the ones in `protected_steps`
// too. keep 0 removes none.
std::vector<int64_t> expired_steps(std::vector<int64_t> steps, int64_t keep,
                                   const std::set<int64_t>& protected_steps);

// Renames a checkpoint to NAME.REASON (NAME.REASON-2, ...) and returns the new path.
std::string set_aside(FileOps& files, const std::string& path, const std::string& reason);

// Removes a checkpoint so that at no moment a part of it bears its name.
void remove_checkpoint(FileOps& files, const std::string& folder, const std::string& name);

// Gives the name final_name to the whole checkpoint at folder/temporary_name. One of that name that
// is there already is replaced: an interruption in between leaves it under a .replaced- name, from
// which tidy_folder() brings it back.
void publish_checkpoint(FileOps& files, const std::string& folder,
                        const std::string& temporary_name, const std::string& final_name);

// Cleans up after jobs that were killed: removes temporary folders and restores a replaced
// checkpoint whose successor did not come. Only for the one job that holds the run. Returns what it
// did, one sentence each.
std::vector<std::string> tidy_folder(FileOps& files, const std::string& folder);

}  // namespace longship::runtime
