#include "slurm/batch_script.h"

namespace longship::slurm {
namespace {

// A raw string literal, made from slurm/train.sbatch by CMake.
constexpr char kTrainSbatch[] =
#include "train_sbatch.inc"
    ;

}  // namespace

std::string batch_script_template() {
  return kTrainSbatch;
}

}  // namespace longship::slurm
