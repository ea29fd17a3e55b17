#include "runtime/config_help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "models/registry.h"
#include "runtime/config_fields.h"

namespace longship::runtime {
namespace {

using testing::HasSubstr;

TEST(FieldsHelp, ShowsEveryKeyWithTypeDefaultAndMeaning) {
  const std::string help = fields_help();
  for (const Field& field : config_fields()) {
    EXPECT_THAT(help, HasSubstr("  " + field.key + " ")) << field.key;
    EXPECT_THAT(help, HasSubstr(field.rule.meaning)) << field.key;
  }
  EXPECT_THAT(help, HasSubstr("train.batch_size        integer          256   Windows of one"));
  EXPECT_THAT(help, HasSubstr("with model.name lstm"));
  EXPECT_THAT(help, HasSubstr("model.hidden_size"));
}

// The page of the documentation is this program's own text. With LONGSHIP_UPDATE_DOCS set, the test
// writes it instead.
TEST(FieldsMarkdown, IsTheDocumentation) {
  const std::string path = LONGSHIP_SOURCE_DIR "/docs/config.md";
  if (std::getenv("LONGSHIP_UPDATE_DOCS") != nullptr) {
    std::ofstream(path) << fields_markdown();
  }
  std::ifstream stream(path);
  const std::string page{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  EXPECT_TRUE(page == fields_markdown())
      << "docs/config.md is out of date: run this test with LONGSHIP_UPDATE_DOCS=1 to renew it";
}

TEST(FieldsMarkdown, HoldsTheOptionsOfEveryModel) {
  const std::string page = fields_markdown();
  for (const auto& [name, model] : models::registered_models()) {
    EXPECT_THAT(page, HasSubstr("### `model.name: " + name + "`"));
    for (const models::OptionSpec& option : model.options) {
      EXPECT_THAT(page, HasSubstr("| `model." + option.name + "` |"));
    }
  }
}

}  // namespace
}  // namespace longship::runtime
