#pragma once

#include <string>

namespace longship::slurm {

// The text of slurm/train.sbatch as it was when the program was built: a batch script for sbatch
// that trains the run file given as its argument.
std::string batch_script_template();

}  // namespace longship::slurm
