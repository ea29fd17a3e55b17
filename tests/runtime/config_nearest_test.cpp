#include "runtime/config_nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longship::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(EditDistance, CountsEditsAndSwapsOfNeighbours) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("weigth", "weight"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("Batch_Size", "batch_size"), 0u);
}

TEST(NearestWord, FindsOnlyWhatIsNear) {
  EXPECT_EQ(nearest_word("adam", {"adamw", "sgd"}), "adamw");
  EXPECT_EQ(nearest_word("lbfgs", {"adamw", "sgd"}), "");
}

TEST(NearestKeys, FindsMisspeltMisplacedAndForeignNames) {
  const auto& fields = config_fields();
  EXPECT_THAT(nearest_keys("optimizer.weigth_decay", fields),
              ElementsAre("optimizer.weight_decay"));
  EXPECT_THAT(nearest_keys("optimizer.learing_rate", fields), ElementsAre("optimizer.lr"));
  EXPECT_THAT(nearest_keys("train.lr", fields), ElementsAre("optimizer.lr"));
  EXPECT_THAT(nearest_keys("train.Batch_Size", fields), ElementsAre("train.batch_size"));
  EXPECT_THAT(nearest_keys("eval.batchsize", fields), ElementsAre("eval.batch_size"));
  EXPECT_THAT(nearest_keys("optimizer.betas", fields),
              ElementsAre("optimizer.beta1", "optimizer.beta2"));
  EXPECT_THAT(nearest_keys("window", fields), ElementsAre("data.window"));
  EXPECT_THAT(nearest_keys("train.quux", fields), IsEmpty());
}

TEST(NearestKeys, KnowsTheOptionsOfTheChosenModel) {
  EXPECT_THAT(nearest_keys("model.hiden_size", fields_with_model("lstm")),
              ElementsAre("model.hidden_size"));
}

TEST(KeyHint, NamesTheSectionsKeysWhenNothingIsNear) {
  EXPECT_THAT(key_hint("comm.quux", config_fields()),
              HasSubstr("'comm:' has backend, wire, bucket_mib and timeout_s"));
  EXPECT_THAT(key_hint("train.optimizer", config_fields()),
              HasSubstr("'optimizer:' is a section of its own"));
  EXPECT_THAT(key_hint("quux", config_fields()), HasSubstr("the sections are run, data, model"));
}

TEST(SectionNames, AreInTableOrder) {
  EXPECT_THAT(section_names(), ElementsAre("run", "data", "model", "train", "optimizer", "schedule",
                                           "precision", "eval", "comm", "checkpoint", "log"));
}

}  // namespace
}  // namespace longship::runtime
