#include "runtime/checkpoint_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "checkpoint_support.h"
#include "temporary_folder.h"

namespace longship::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using tests::make_state;
using tests::TemporaryFolder;

// Changes one bit of the last byte of every write on its way to the disk.
class FlippingDisk : public FileOps {
 public:
  ssize_t write(int descriptor, const void* data, std::size_t bytes) override {
    std::string text(static_cast<const char*>(data), bytes);
    text.back() = static_cast<char>(text.back() ^ 4);
    return FileOps::write(descriptor, text.data(), text.size());
  }
};

TEST(CheckpointWriter, SharesCoverEveryElementOnceForAnyNumberOfRanks) {
  const std::vector<OptimizerEntry> entries = make_state(5).optimizer;
  for (int world_size : {1, 2, 3, 7, 16, 1000}) {
    Manifest manifest = describe_state(make_state(5), world_size);
    int64_t least = 1 << 30;
    int64_t most = 0;
    for (int rank = 0; rank < world_size; ++rank) {
      int64_t elements = 0;
      for (const auto& piece : optimizer_share(entries, rank, world_size)) {
        elements += piece.end - piece.begin;
        manifest.pieces.push_back(piece);
      }
      least = std::min(least, elements);
      most = std::max(most, elements);
    }
    EXPECT_LE(most - least, 1) << world_size;
    EXPECT_THAT(uncovered_optimizer(manifest), IsEmpty()) << world_size;
  }
}

TEST(CheckpointWriter, PiecesCutTensors) {
  const std::vector<OptimizerEntry> entries = {{"a", "m", torch::zeros({4})},
                                               {"b", "m", torch::zeros({2, 3})}};
  const auto share = optimizer_share(entries, 1, 3);  // elements 4..8 of 10
  ASSERT_EQ(share.size(), 1U);
  EXPECT_EQ(share[0].parameter, "b");
  EXPECT_EQ(share[0].begin, 0);
  EXPECT_EQ(share[0].end, 3);
  EXPECT_EQ(share[0].file, "optimizer-00001-of-00003.safetensors");
  EXPECT_EQ(share[0].key, "b/m[0:3]");
}

TEST(CheckpointWriter, PartsThatARankHoldsAreWhatItWrites) {
  const TemporaryFolder folder;
  FileOps files;
  const std::vector<OptimizerEntry> entries = {
      {"a", "m", torch::zeros({0}), TensorPart{{4}, 0}},
      {"b", "m", torch::tensor({7.0F, 8.0F}), TensorPart{{2, 3}, 3}}};
  const auto share = optimizer_share(entries, 1, 2);
  ASSERT_EQ(share.size(), 1U);
  EXPECT_EQ(share[0].key, "b/m[3:5]");
  write_optimizer_share(files, folder.path().string(), entries, 1, 2);
  const SafetensorsReader reader(folder / "optimizer-00001-of-00002.safetensors");
  at::Tensor read = torch::zeros({2});
  reader.read_into(reader.tensors().front(), read.mutable_data_ptr());
  EXPECT_TRUE(at::equal(read, entries[1].tensor));
  TrainingState state = make_state(5);
  state.optimizer = entries;
  EXPECT_THAT(describe_state(state, 2).optimizer[1].shape, ElementsAre(2, 3));
}

TEST(CheckpointWriter, WritesModelAndStateApart) {
  const TemporaryFolder folder;
  FileOps files;
  const TrainingState state = make_state(5);
  const auto written = write_weights(files, folder.path().string(), state);
  ASSERT_EQ(written.size(), 2U);
  EXPECT_EQ(written[0].name, "model.safetensors");
  EXPECT_EQ(written[1].name, "state.safetensors");
  const SafetensorsReader model(folder / "model.safetensors");
  EXPECT_EQ(model.tensors().size(), state.weights.size());
  EXPECT_EQ(model.metadata().at("longship_step"), "5");
  EXPECT_EQ(InputFile(model.path()).digest(), written[0].digest);
}

TEST(CheckpointWriter, EmptySharesLeaveNoFile) {
  const TemporaryFolder folder;
  FileOps files;
  const std::vector<OptimizerEntry> entries = {{"a", "m", torch::zeros({2})}};
  EXPECT_EQ(write_optimizer_share(files, folder.path().string(), entries, 1, 3).size(), 1U);
  EXPECT_THAT(write_optimizer_share(files, folder.path().string(), entries, 2, 3), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "optimizer-00002-of-00003.safetensors"));
}

TEST(CheckpointWriter, NoticesADiskThatChangesWhatItIsGiven) {
  const TemporaryFolder folder;
  FlippingDisk files;
  EXPECT_THAT([&] { write_weights(files, folder.path().string(), make_state(5)); },
              ThrowsMessage<CheckpointError>(HasSubstr("reads back differently")));
}

TEST(CheckpointWriter, DescribesEveryTensor) {
  const TrainingState state = make_state(5);
  const Manifest manifest = describe_state(state, 2);
  EXPECT_EQ(manifest.step, 5);
  EXPECT_EQ(manifest.applied, 3);
  EXPECT_EQ(manifest.world_size, 2);
  ASSERT_EQ(manifest.weights.size(), 4U);
  EXPECT_EQ(manifest.weights[2].name, "norm.running_var");
  EXPECT_EQ(manifest.weights[2].dtype, "F64");
  EXPECT_THAT(manifest.weights[3].shape, IsEmpty());
  EXPECT_THAT(manifest.optimizer[0].shape, ElementsAre(12, 5));
  EXPECT_EQ(manifest.scalars, state.scalars);
  EXPECT_EQ(manifest.versions.at("longship"), LONGSHIP_VERSION);
}

}  // namespace
}  // namespace longship::runtime
