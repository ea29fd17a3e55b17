#include "runtime/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "checkpoint_support.h"
#include "temporary_folder.h"

namespace longship::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using tests::random_tensor;
using tests::same_bits;
using tests::TemporaryFolder;

std::string read_text(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A file with this header and so many bytes of data.
std::string file_text(const std::string& header, std::size_t data_bytes) {
  const uint64_t length = header.size();
  std::string text(sizeof(length), '\0');
  std::memcpy(text.data(), &length, sizeof(length));
  return text + header + std::string(data_bytes, '\1');
}

std::vector<NamedTensor> tensors_of_all_dtypes() {
  return {{"flag", torch::tensor({true, false, true}, torch::kBool)},
          {"double", random_tensor({2, 3}, 1, torch::kDouble)},
          {"float", random_tensor({3, 2, 4}, 2)},
          {"half", random_tensor({5}, 3, torch::kHalf)},
          {"bfloat16", random_tensor({7}, 4, torch::kBFloat16)},
          {"long", torch::tensor({int64_t{-1}, int64_t{1} << 60}, torch::kLong)},
          {"int", torch::tensor({-5, 6}, torch::kInt)},
          {"byte", torch::tensor({0, 255}, torch::kByte)},
          {"scalar", torch::tensor(2.5F)},
          {"empty", torch::empty({0, 3})}};
}

TEST(Safetensors, ReadsBackEveryDtypeBitForBit) {
  const TemporaryFolder folder;
  FileOps files;
  const auto tensors = tensors_of_all_dtypes();
  const FileDigest digest =
      write_safetensors(files, folder / "a.safetensors", tensors, {{"key", "väl\"ue"}});

  const SafetensorsReader reader(folder / "a.safetensors");
  EXPECT_EQ(reader.tensors().size(), tensors.size());
  EXPECT_EQ(reader.metadata(), (std::map<std::string, std::string>{{"key", "väl\"ue"}}));
  for (const NamedTensor& entry : tensors) {
    EXPECT_TRUE(same_bits(reader.read(entry.name), entry.tensor)) << entry.name;
  }
  EXPECT_EQ(digest.bytes, read_text(folder / "a.safetensors").size());
  EXPECT_EQ(InputFile(folder / "a.safetensors").digest(), digest);
}

TEST(Safetensors, StoresTransposedAndSlicedTensorsInRowMajorOrder) {
  const TemporaryFolder folder;
  FileOps files;
  const torch::Tensor base = torch::arange(12, torch::kFloat).reshape({3, 4});
  write_safetensors(files, folder / "a",
                    {{"t", base.t()}, {"row", base[1]}, {"column", base.slice(1, 2, 3)}}, {});
  const SafetensorsReader reader(folder / "a");
  EXPECT_TRUE(same_bits(reader.read("t"), base.t()));
  EXPECT_TRUE(same_bits(reader.read("row"), torch::tensor({4.0F, 5.0F, 6.0F, 7.0F})));
  EXPECT_TRUE(same_bits(reader.read("column"), torch::tensor({2.0F, 6.0F, 10.0F}).view({3, 1})));
}

TEST(Safetensors, AlignsEveryTensorToItsElements) {
  const TemporaryFolder folder;
  FileOps files;
  write_safetensors(files, folder / "a", tensors_of_all_dtypes(), {});
  const SafetensorsReader reader(folder / "a");
  for (const TensorInfo& info : reader.tensors()) {
    EXPECT_EQ(info.begin % c10::elementSize(*scalar_type_of(info.dtype)), 0) << info.name;
  }
}

TEST(Safetensors, PythonReadsWhatIsWrittenHere) {
  const TemporaryFolder folder;
  FileOps files;
  write_safetensors(files, folder / "a.safetensors", tensors_of_all_dtypes(), {{"format", "pt"}});
  write_text(folder / "check.py", R"(
import sys, torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
tensors = load_file(sys.argv[1])
names = "flag double float half bfloat16 long int byte scalar empty"
assert sorted(tensors) == sorted(names.split())
assert tensors["flag"].tolist() == [True, False, True]
assert tensors["long"].tolist() == [-1, 1 << 60] and tensors["int"].tolist() == [-5, 6]
assert tensors["byte"].tolist() == [0, 255] and tensors["byte"].dtype == torch.uint8
assert tensors["scalar"].shape == () and tensors["scalar"].item() == 2.5
assert tensors["empty"].shape == (0, 3)
assert tensors["bfloat16"].dtype == torch.bfloat16 and tensors["half"].dtype == torch.float16
assert safe_open(sys.argv[1], "pt").metadata() == {"format": "pt"}
save_file(tensors, sys.argv[2], metadata={"from": "python"})
)");
  const std::string command = std::string(LONGSHIP_PYTHON) + " " + (folder / "check.py") + " " +
                              (folder / "a.safetensors") + " " + (folder / "b.safetensors");
  ASSERT_EQ(std::system(command.c_str()), 0);

  // And back: what Python wrote is read here.
  const SafetensorsReader reader(folder / "b.safetensors");
  EXPECT_EQ(reader.metadata().at("from"), "python");
  for (const NamedTensor& entry : tensors_of_all_dtypes()) {
    EXPECT_TRUE(same_bits(reader.read(entry.name), entry.tensor)) << entry.name;
  }
}

TEST(Safetensors, RefusesToWriteTwoTensorsOfOneNameAndUnknownDtypes) {
  const TemporaryFolder folder;
  FileOps files;
  EXPECT_THAT(
      [&] {
        write_safetensors(files, folder / "a", {{"x", torch::ones(1)}, {"x", torch::ones(1)}}, {});
      },
      ThrowsMessage<CheckpointError>(HasSubstr("two tensors named 'x'")));
  EXPECT_THAT(
      [&] {
        write_safetensors(files, folder / "b", {{"x", torch::ones(1, torch::kShort)}}, {});
      },
      ThrowsMessage<CheckpointError>(HasSubstr("dtype Short cannot be stored")));
}

TEST(Safetensors, NeverWritesOverAFile) {
  const TemporaryFolder folder;
  FileOps files;
  write_text(folder / "a", "mine");
  EXPECT_THAT([&] { write_safetensors(files, folder / "a", {}, {}); },
              ThrowsMessage<CheckpointError>(HasSubstr("File exists")));
  EXPECT_EQ(read_text(folder / "a"), "mine");
}

struct BadFile {
  const char* name;
  std::string text;
  const char* message;
};

class BadSafetensors : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadSafetensors, IsRefusedByName) {
  const TemporaryFolder folder;
  write_text(folder / "bad.safetensors", GetParam().text);
  EXPECT_THAT([&] { SafetensorsReader reader(folder / "bad.safetensors"); },
              ThrowsMessage<DamagedError>(
                  testing::AllOf(HasSubstr("bad.safetensors"), HasSubstr(GetParam().message))));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadSafetensors,
    ::testing::Values(
        BadFile{"Empty", "", "has 0 bytes"},
        BadFile{"HeaderLongerThanFile", file_text("{}", 0).substr(0, 9), "should take 2 bytes"},
        BadFile{"HugeHeader", std::string(16, '\x7f'), "should take"},
        BadFile{"NotJson", file_text("{nonsense", 0), "not JSON"},
        BadFile{"NotAnObject", file_text("[1]", 0), "not a JSON object"},
        BadFile{"NoShape", file_text(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4),
                "expected dtype, shape and data_offsets"},
        BadFile{"UnknownDtype",
                file_text(R"({"a":{"dtype":"F8_E5M2","shape":[4],"data_offsets":[0,4]}})", 4),
                "dtype is \"F8_E5M2\""},
        BadFile{"NegativeSize",
                file_text(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
                "is -1, expected a whole number"},
        BadFile{"Overflow",
                file_text(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],)"
                          R"("data_offsets":[0,4]}})",
                          4),
                "is too large"},
        BadFile{"WrongLength",
                file_text(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
                "takes 8 bytes, found data_offsets [0,4]"},
        BadFile{"BackwardOffsets",
                file_text(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4),
                "found data_offsets [4,0]"},
        BadFile{"Truncated",
                file_text(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7),
                "its bytes end at"},
        BadFile{"TrailingBytes",
                file_text(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5),
                "the tensors end at"},
        BadFile{"Overlap",
                file_text(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                          R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                          8),
                "tensor 'b' begins at byte"},
        BadFile{"Gap",
                file_text(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                          R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
                          12),
                "tensor 'b' begins at byte"},
        BadFile{"SameNameTwice",
                file_text(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                          R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                          4),
                "names 'a' twice"},
        BadFile{"MetadataNotText", file_text(R"({"__metadata__":{"a":1}})", 0), "is not a string"}),
    [](const auto& test) { return test.param.name; });

TEST(Safetensors, NamesTheTensorThatIsNotThere) {
  const TemporaryFolder folder;
  FileOps files;
  write_safetensors(files, folder / "a", {{"x", torch::ones(1)}}, {});
  const SafetensorsReader reader(folder / "a");
  EXPECT_THAT([&] { reader.read("y"); },
              ThrowsMessage<DamagedError>(HasSubstr("has no tensor 'y'")));
}

TEST(Safetensors, NamesTheFileThatIsNotThere) {
  const TemporaryFolder folder;
  EXPECT_THAT([&] { SafetensorsReader reader(folder / "a"); },
              ThrowsMessage<DamagedError>(HasSubstr("a is missing")));
}

}  // namespace
}  // namespace longship::runtime
