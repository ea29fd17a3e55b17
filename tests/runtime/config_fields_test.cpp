#include "runtime/config_fields.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "models/registry.h"
#include "runtime/config_values.h"

namespace longship::runtime {
namespace {

const Field& find(const std::vector<Field>& fields, const std::string& key) {
  auto found =
      std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.key == key; });
  if (found == fields.end()) throw std::out_of_range(key);
  return *found;
}

TEST(ConfigFields, HaveUniqueKeysAndAMeaning) {
  std::set<std::string> keys;
  for (const Field& field : config_fields()) {
    EXPECT_TRUE(keys.insert(field.key).second) << field.key;
    EXPECT_FALSE(field.rule.meaning.empty()) << field.key;
    EXPECT_EQ(std::count(field.key.begin(), field.key.end(), '.'), 1) << field.key;
    if (!field.rule.only_with.empty()) {
      EXPECT_NO_THROW(find(config_fields(), field.rule.only_with)) << field.key;
    }
  }
}

// A getter and setter that do not belong together would pass a value to the wrong key.
TEST(ConfigFields, SetWhatTheyGetAndNothingElse) {
  const auto& fields = config_fields();
  for (const Field& field : fields) {
    FieldValue value;
    switch (field.type) {
      case FieldType::kInteger:
        value = int64_t{12345};
        break;
      case FieldType::kNumber:
        value = 12345.5;
        break;
      case FieldType::kFlag:
        value = !std::get<bool>(field.get(Config{}));
        break;
      case FieldType::kText:
        value = field.rule.choices.empty() ? "some text" : field.rule.choices.back();
        break;
      case FieldType::kTextList:
        value = std::vector<std::string>{"a", "b"};
        break;
      case FieldType::kNumberList:
        value = std::vector<double>{1.5, 2.5};
        break;
      case FieldType::kSplit:
        value = data::SplitSpec(data::SplitDates{1, 2});
        break;
    }
    Config config;
    field.set(config, value);
    for (const Field& other : fields) {
      if (other.key == field.key) {
        EXPECT_EQ(other.get(config), value) << field.key;
      } else {
        EXPECT_EQ(other.get(config), other.get(Config{})) << field.key << " changed " << other.key;
      }
    }
  }
}

TEST(ConfigFields, DefaultsObeyTheirOwnRules) {
  for (const auto& [name, model] : models::registered_models()) {
    for (const Field& field : fields_with_model(name)) {
      if (!field.rule.fallback) continue;
      EXPECT_NO_THROW(default_value(field)) << field.key;
    }
  }
}

TEST(ConfigFields, SayWhatIsFixedOnResume) {
  const auto& fields = config_fields();
  for (const char* key : {"run.seed", "data.inputs", "data.split", "model.name", "train.batch_size",
                          "train.micro_batch_size", "train.loss"}) {
    EXPECT_EQ(find(fields, key).rule.change, Change::kFixed) << key;
  }
  for (const char* key : {"data.path", "train.epochs", "train.clip_norm", "optimizer.lr",
                          "schedule.name", "precision.mode", "comm.wire", "checkpoint.keep"}) {
    EXPECT_EQ(find(fields, key).rule.change, Change::kFree) << key;
  }
}

TEST(ModelFields, ComeFromTheModelsDeclaration) {
  const models::ModelSpec model{
      .name = "toy",
      .summary = "",
      .options = {{"units", int64_t{8}, 1, 64, {}, "units", "width"},
                  {"rate", 0.25, 0, -1, {}, "", "open upwards"},
                  {"bias", true, 0, 0, {}, "", "a switch"},
                  {"kind", std::string("a"), 0, -1, {"a", "b"}, "", "a choice"}},
      .make = nullptr};
  const std::vector<Field> fields = model_fields(model);
  ASSERT_EQ(fields.size(), 4u);
  EXPECT_EQ(fields[0].key, "model.units");
  EXPECT_EQ(allowed_text(fields[0]), "1 to 64");
  EXPECT_EQ(allowed_text(fields[1]), "0 or more");
  EXPECT_EQ(allowed_text(fields[3]), "one of a, b");
  EXPECT_EQ(type_text(fields[2]), "true or false");
  Config config;
  for (const Field& field : fields) field.set(config, default_value(field));
  EXPECT_EQ(config.model.options.integer("units"), 8);
  EXPECT_EQ(config.model.options.number("rate"), 0.25);
  EXPECT_TRUE(config.model.options.flag("bias"));
  EXPECT_EQ(config.model.options.text("kind"), "a");
}

TEST(AllowedText, TellsBoundsInWords) {
  const auto& fields = config_fields();
  EXPECT_EQ(allowed_text(find(fields, "train.batch_size")), "1 or more");
  EXPECT_EQ(allowed_text(find(fields, "train.micro_batch_size")), "auto; 1 or more");
  EXPECT_EQ(allowed_text(find(fields, "optimizer.lr")), "more than 0");
  EXPECT_EQ(allowed_text(find(fields, "train.quantiles")), "more than 0, less than 1");
  EXPECT_EQ(allowed_text(find(fields, "comm.wire")), "one of fp32, fp16, bf16");
  EXPECT_EQ(allowed_text(find(fields, "data.path")), "");
}

}  // namespace
}  // namespace longship::runtime
