#include "runtime/checkpoint_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "checkpoint_support.h"
#include "temporary_folder.h"

namespace longship::runtime {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using tests::make_state;
using tests::same_state;
using tests::same_tensors;

// A checkpoint of step 5, written by three ranks.
class CheckpointReader : public ::testing::Test {
 protected:
  CheckpointReader() {
    EXPECT_EQ(
        tests::on_ranks(3,
                        [&](comm::Communicator& host) {
                          Checkpointer(folder_ / "checkpoints", host, 3).save(make_state(5), false);
                        }),
        tests::no_errors(3));
    path_ = folder_ / "checkpoints/step-000000005";
  }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string text(const std::string& name) const {
    std::ifstream stream(fs::path(path_) / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void write(const std::string& name, const std::string& contents) const {
    std::ofstream(fs::path(path_) / name, std::ios::binary) << contents;
  }
  // Writes the manifest anew with a change and a right hash.
  void change_manifest(const std::function<void(json&)>& change) const {
    json value = json::parse(text("manifest.json"));
    value.erase("xxh3");
    change(value);
    std::string body = value.dump(2);
    body.resize(body.size() - 2);
    write("manifest.json",
          body + ",\n  \"xxh3\": \"" + hash_text(xxh3(body.data(), body.size())) + "\"\n}\n");
  }

  tests::TemporaryFolder folder_;
  std::string path_;
};

TEST_F(CheckpointReader, HoldsTheFilesThatTheDocumentationNames) {
  EXPECT_THAT(files(), ElementsAre("manifest.json", "model.safetensors",
                                   "optimizer-00000-of-00003.safetensors",
                                   "optimizer-00001-of-00003.safetensors",
                                   "optimizer-00002-of-00003.safetensors", "state.safetensors"));
}

TEST_F(CheckpointReader, ReadsBackBitForBit) {
  EXPECT_THAT(verify_checkpoint(path_), IsEmpty());
  EXPECT_TRUE(same_state(read_checkpoint(path_, Parts::kAll), make_state(5)));
}

TEST_F(CheckpointReader, WeightsDoNotNeedTheOptimizersFiles) {
  for (const std::string& name : files()) {
    if (name.starts_with("optimizer")) fs::remove(fs::path(path_) / name);
  }
  const TrainingState state = read_checkpoint(path_, Parts::kWeights);
  EXPECT_TRUE(same_tensors(state.weights, make_state(5).weights));
  EXPECT_EQ(state.scalars, make_state(5).scalars);
  EXPECT_THAT(state.optimizer, IsEmpty());
  EXPECT_THAT([&] { read_checkpoint(path_, Parts::kAll); },
              ThrowsMessage<DamagedError>(HasSubstr("is missing")));
  EXPECT_EQ(verify_checkpoint(path_).size(), 3U);
}

TEST_F(CheckpointReader, NoticesEveryFlippedByteOfEveryFile) {
  for (const std::string& name : files()) {
    const std::string intact = text(name);
    // Every byte of the short ones, a prime's stride through the manifest.
    const std::size_t stride = name == "manifest.json" ? 37 : 7;
    for (std::size_t i = 0; i < intact.size(); i += stride) {
      std::string changed = intact;
      changed[i] = static_cast<char>(changed[i] ^ 0x20);
      write(name, changed);
      const std::vector<std::string> problems = verify_checkpoint(path_);
      ASSERT_THAT(problems, ElementsAre(HasSubstr(name))) << "byte " << i;
      EXPECT_THROW(read_checkpoint(path_, Parts::kAll), DamagedError) << name << " byte " << i;
    }
    write(name, intact);
  }
  EXPECT_THAT(verify_checkpoint(path_), IsEmpty());
}

TEST_F(CheckpointReader, NoticesTruncatedLongerAndMissingFiles) {
  for (const std::string& name : files()) {
    const std::string intact = text(name);
    for (const std::string& changed :
         {intact.substr(0, intact.size() - 1), intact.substr(0, intact.size() / 2), std::string(),
          intact + "x"}) {
      write(name, changed);
      EXPECT_THAT(verify_checkpoint(path_), ElementsAre(HasSubstr(name)));
    }
    fs::remove(fs::path(path_) / name);
    EXPECT_THAT(verify_checkpoint(path_),
                ElementsAre(AllOf(HasSubstr(name), HasSubstr("missing"))));
    write(name, intact);
  }
}

TEST_F(CheckpointReader, AFolderInThePlaceOfAFileIsDamage) {
  for (const std::string& name : files()) {
    const std::string intact = text(name);
    fs::remove(fs::path(path_) / name);
    fs::create_directory(fs::path(path_) / name);
    EXPECT_THAT(examine_checkpoint(path_).damage,
                ElementsAre(AllOf(HasSubstr(name), HasSubstr("is not a regular file"))));
    EXPECT_THROW(read_checkpoint(path_, Parts::kAll), DamagedError) << name;
    fs::remove(fs::path(path_) / name);
    write(name, intact);
  }
}

TEST_F(CheckpointReader, SaysExpectedAndFoundSizes) {
  write("model.safetensors", "short");
  const std::string size = std::to_string(read_manifest(path_).files[0].digest.bytes);
  EXPECT_THAT(verify_checkpoint(path_),
              ElementsAre(HasSubstr("model.safetensors has 5 bytes, expected " + size)));
}

TEST_F(CheckpointReader, RefusesACheckpointWithoutAPartNamingIt) {
  for (const std::string& section : required_sections()) {
    const std::string intact = text("manifest.json");
    change_manifest([&](json& manifest) { manifest["scalars"].erase(section); });
    EXPECT_THAT([&] { read_checkpoint(path_, Parts::kAll); },
                ThrowsMessage<RefusedError>(HasSubstr("lacks '" + section + "'")));
    EXPECT_THAT(verify_checkpoint(path_), ElementsAre(HasSubstr("lacks '" + section + "'")));
    EXPECT_THAT(examine_checkpoint(path_).damage, IsEmpty());
    write("manifest.json", intact);
  }
  change_manifest([](json& manifest) { manifest.erase("optimizer"); });
  EXPECT_THAT([&] { read_checkpoint(path_, Parts::kAll); },
              ThrowsMessage<RefusedError>(HasSubstr("lacks 'optimizer'")));
  EXPECT_EQ(read_checkpoint(path_, Parts::kWeights).step, 5);
}

TEST_F(CheckpointReader, NoticesAManifestThatDoesNotFitTheFiles) {
  const std::string intact = text("manifest.json");
  change_manifest([](json& manifest) { manifest["weights"][0]["shape"] = {5, 12}; });
  EXPECT_THAT(verify_checkpoint(path_),
              ElementsAre(HasSubstr("'lstm.weight_ih_l0' is F32 [12,5], expected F32 [5,12]")));
  write("manifest.json", intact);
  change_manifest([](json& manifest) { manifest["files"].erase(0); });
  EXPECT_THAT(verify_checkpoint(path_), ElementsAre(HasSubstr("does not list model.safetensors")));
  EXPECT_THROW(read_checkpoint(path_, Parts::kAll), DamagedError);
  write("manifest.json", intact);
  change_manifest([](json& manifest) { manifest["optimizer"]["pieces"].erase(1); });
  EXPECT_THAT(verify_checkpoint(path_), ElementsAre(HasSubstr("leave off or overlap")));
  EXPECT_THROW(read_checkpoint(path_, Parts::kAll), DamagedError);
}

TEST_F(CheckpointReader, AFileThatMayNotBeReadIsNoDamage) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every file";
  fs::permissions(fs::path(path_) / "model.safetensors", fs::perms::none);
  EXPECT_THAT([&] { verify_checkpoint(path_); },
              ThrowsMessage<CheckpointError>(HasSubstr("Permission denied")));
}

}  // namespace
}  // namespace longship::runtime
