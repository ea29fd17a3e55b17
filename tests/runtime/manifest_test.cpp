#include "runtime/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/checkpoint_state.h"

namespace longship::runtime {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

Manifest example() {
  Manifest manifest;
  manifest.step = 1200;
  manifest.applied = 1198;
  manifest.created = "2026-01-31T12:00:00Z";
  manifest.world_size = 3;
  manifest.files = {{"model.safetensors", {123, 0xfedcba9876543210}},
                    {"optimizer-00000-of-00001.safetensors", {45, 7}}};
  manifest.weights = {{"w", {2, 3}, "F32"}};
  manifest.extra = {{"history", {4}, "F32"}};
  manifest.optimizer = {{"w", "exp_avg", {2, 3}, "F32"}};
  manifest.pieces = {{"w", "exp_avg", 0, 4, "optimizer-00000-of-00001.safetensors", "a"},
                     {"w", "exp_avg", 4, 6, "optimizer-00000-of-00001.safetensors", "b"}};
  for (const std::string& section : required_sections()) manifest.scalars[section] = {{"a", 0.1}};
  manifest.versions = {{"longship", "0.1.0"}};
  return manifest;
}

// The text with its hash made anew, as a program that meant to change it would write it.
std::string with_hash(const json& value) {
  json body = value;
  body.erase("xxh3");
  std::string text = body.dump(2);
  text.resize(text.size() - 2);
  return text + ",\n  \"xxh3\": \"" + hash_text(xxh3(text.data(), text.size())) + "\"\n}\n";
}

TEST(Manifest, ReadsBackWhatWasWritten) {
  const Manifest read = parse_manifest(manifest_text(example()), "m");
  EXPECT_EQ(read.step, 1200);
  EXPECT_EQ(read.applied, 1198);
  EXPECT_EQ(read.created, "2026-01-31T12:00:00Z");
  EXPECT_EQ(read.world_size, 3);
  ASSERT_EQ(read.files.size(), 2U);
  EXPECT_EQ(read.files[0].name, "model.safetensors");
  EXPECT_EQ(read.files[0].digest, (FileDigest{123, 0xfedcba9876543210}));
  EXPECT_EQ(read.total_bytes(), 168U);
  ASSERT_EQ(read.weights.size(), 1U);
  EXPECT_EQ(read.weights[0].shape, (std::vector<int64_t>{2, 3}));
  ASSERT_EQ(read.extra.size(), 1U);
  EXPECT_EQ(read.extra[0].name, "history");
  ASSERT_EQ(read.optimizer.size(), 1U);
  EXPECT_EQ(read.optimizer[0].elements(), 6);
  ASSERT_EQ(read.pieces.size(), 2U);
  EXPECT_EQ(read.pieces[1].begin, 4);
  EXPECT_EQ(read.pieces[1].key, "b");
  EXPECT_EQ(read.scalars, example().scalars);
  EXPECT_EQ(read.versions.at("longship"), "0.1.0");
  EXPECT_THAT(read.missing, IsEmpty());
}

TEST(Manifest, IsAnObjectForAnyJsonReader) {
  const json value = json::parse(manifest_text(example()));
  EXPECT_EQ(value["format"], "longship-checkpoint");
  EXPECT_EQ(value["version"], 1);
  EXPECT_EQ(value["files"][0]["xxh3"], "fedcba9876543210");
  EXPECT_EQ(value["xxh3"].get<std::string>().size(), 16U);
}

TEST(Manifest, NoticesEveryChangedByte) {
  const std::string text = manifest_text(example());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_THROW(parse_manifest(changed, "m"), DamagedError) << "byte " << i;
  }
}

TEST(Manifest, NoticesEveryTruncation) {
  const std::string text = manifest_text(example());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_THROW(parse_manifest(text.substr(0, length), "m"), DamagedError) << length;
  }
}

TEST(Manifest, RefusesAnotherVersionNamingBoth) {
  json value = json::parse(manifest_text(example()));
  value["version"] = 2;
  value["versions"]["longship"] = "9.9.9";
  value.erase("weights");  // a newer version may be laid out in another way
  EXPECT_THAT(
      [&] { parse_manifest(with_hash(value), "m"); },
      ThrowsMessage<RefusedError>(testing::AllOf(HasSubstr("format version 2"), HasSubstr("9.9.9"),
                                                 HasSubstr("up to version 1"))));
  value["version"] = 0;
  EXPECT_THAT([&] { parse_manifest(with_hash(value), "m"); },
              ThrowsMessage<RefusedError>(HasSubstr("format version 0")));
}

TEST(Manifest, NamesEveryPartThatIsMissing) {
  std::vector<std::string> parts = required_sections();
  for (const std::string& section : parts) {
    json value = json::parse(manifest_text(example()));
    value["scalars"].erase(section);
    const Manifest manifest = parse_manifest(with_hash(value), "m");
    EXPECT_THAT(manifest.missing, ElementsAre(section));
    EXPECT_THAT([&] { require_parts(manifest, parts, "path"); },
                ThrowsMessage<RefusedError>(HasSubstr("path lacks '" + section + "'")));
  }
  json value = json::parse(manifest_text(example()));
  value.erase("optimizer");
  const Manifest manifest = parse_manifest(with_hash(value), "m");
  EXPECT_THAT(manifest.missing, ElementsAre("optimizer"));
  require_parts(manifest, {"weights"}, "path");  // not needed, not missed
}

TEST(Manifest, RefusesFilesOutsideItsFolder) {
  for (const char* name : {"../model.safetensors", "/etc/passwd", "a/b", "", ".hidden"}) {
    json value = json::parse(manifest_text(example()));
    value["files"][0]["name"] = name;
    EXPECT_THAT([&] { parse_manifest(with_hash(value), "m"); },
                ThrowsMessage<DamagedError>(HasSubstr("is not the name of a file")));
  }
}

TEST(Manifest, RefusesOtherJson) {
  EXPECT_THROW(parse_manifest("", "m"), DamagedError);
  EXPECT_THROW(parse_manifest("{}", "m"), DamagedError);
  EXPECT_THROW(parse_manifest("[1, 2]", "m"), DamagedError);
  EXPECT_THROW(parse_manifest(with_hash({{"format", "longship-checkpoint"}}), "m"), DamagedError);
}

TEST(Manifest, FindsOptimizerTensorsThatPiecesDoNotCover) {
  EXPECT_THAT(uncovered_optimizer(example()), IsEmpty());

  Manifest hole = example();
  hole.pieces[1].begin = 5;
  EXPECT_THAT(uncovered_optimizer(hole), ElementsAre(HasSubstr("exp_avg of w")));
  Manifest overlap = example();
  overlap.pieces[1].begin = 3;
  EXPECT_THAT(uncovered_optimizer(overlap), ElementsAre(HasSubstr("at element 4")));
  Manifest shorter = example();
  shorter.pieces.pop_back();
  EXPECT_THAT(uncovered_optimizer(shorter), ElementsAre(HasSubstr("at element 4")));
  Manifest twice = example();
  twice.pieces.push_back(twice.pieces[0]);
  EXPECT_EQ(uncovered_optimizer(twice).size(), 1U);
  Manifest unknown = example();
  unknown.pieces.push_back({"v", "exp_avg", 0, 1, "f", "k"});
  EXPECT_THAT(uncovered_optimizer(unknown), ElementsAre(HasSubstr("exp_avg of v")));
}

}  // namespace
}  // namespace longship::runtime
