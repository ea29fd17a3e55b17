#include "models/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longship::models {
namespace {

using testing::HasSubstr;

TEST(Registry, HoldsTheModelsOfTheFolderAndTheirDefaults) {
  ASSERT_EQ(registered_models().count("lstm"), 1u);
  ASSERT_EQ(registered_models().count("linear"), 1u);
  const ModelSpec& lstm = registered_models().at("lstm");
  std::map<std::string, OptionValue> defaults;
  for (const OptionSpec& option : lstm.options) {
    defaults[option.name] = option.fallback;
    EXPECT_FALSE(option.meaning.empty()) << option.name;
  }
  const Options options(defaults);
  EXPECT_EQ(options.integer("hidden_size"), 256);
  EXPECT_EQ(options.integer("num_layers"), 3);
  EXPECT_EQ(options.number("dropout"), 0);
  EXPECT_EQ(options.text("init"), "seed");
}

TEST(Registry, RefusesANameTakenTwice) {
  ModelSpec spec;
  spec.name = "lstm";
  try {
    const Registration again(spec);
    FAIL() << "not refused";
  } catch (const std::logic_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'lstm'"));
  }
  EXPECT_FALSE(registered_models().at("lstm").options.empty());  // the first one stays
}

TEST(Options, RefuseNamesAndTypesThatWereNotDeclared) {
  const Options options({{"size", int64_t{4}}, {"fast", true}, {"share", 0.5}});
  EXPECT_EQ(options.integer("size"), 4);
  EXPECT_TRUE(options.flag("fast"));
  EXPECT_EQ(options.number("share"), 0.5);
  EXPECT_THROW(options.number("size"), std::logic_error);
  EXPECT_THROW(options.integer("share"), std::logic_error);
  try {
    options.text("sise");
    FAIL() << "not refused";
  } catch (const std::logic_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'sise'"));
  }
}

}  // namespace
}  // namespace longship::models
