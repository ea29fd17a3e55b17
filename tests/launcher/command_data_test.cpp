#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../runtime/temporary_folder.h"
#include "data/error.h"
#include "launcher/command.h"
#include "runtime/error.h"

namespace longship::launcher {
namespace {

using ::testing::HasSubstr;

class DataCommandTest : public ::testing::Test {
 protected:
  DataCommandTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "longship_command_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~DataCommandTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }
  // Standard output of a run that returns 0.
  static std::string run(const std::vector<std::string>& words) {
    ::testing::internal::CaptureStdout();
    const int code = data_command().run(words);
    std::string output = ::testing::internal::GetCapturedStdout();
    EXPECT_EQ(code, 0);
    return output;
  }
  static std::string usage_error(const std::vector<std::string>& words) {
    ::testing::internal::CaptureStdout();
    std::string message = "(nothing was thrown)";
    try {
      data_command().run(words);
    } catch (const runtime::UsageError& error) {
      message = error.what();
    }
    ::testing::internal::GetCapturedStdout();
    return message;
  }

  std::filesystem::path folder_;
};

TEST_F(DataCommandTest, ImportsAndInspects) {
  const std::string csv =
      write("a.csv", "t;x;y\n2020-01-01;1,5;NA\n2020-01-02;2,5;3\n2020-01-04;4,5;5\n");
  const std::string table = run({"import", csv, "--output", path("a.h5")});
  EXPECT_THAT(table, HasSubstr("delimiter      semicolon"));
  EXPECT_THAT(table, HasSubstr("step           1 d"));
  EXPECT_THAT(table, HasSubstr("rows           4 (3 read)"));
  EXPECT_THAT(table, HasSubstr("missing cells  y 1"));

  const auto json = nlohmann::json::parse(run({"inspect", path("a.h5"), "--json", "--stats"}));
  EXPECT_EQ(json["format"], "longship-series");
  EXPECT_EQ(json["columns"], (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(json["rows"], 4);
  EXPECT_EQ(json["series"][0]["last_time"], "2020-01-04T00:00:00Z");
  EXPECT_EQ(json["statistics"][0]["missing"], 1);
  EXPECT_EQ(json["statistics"][1]["mean"], 4.0);

  const auto from_csv = nlohmann::json::parse(run({"inspect", csv, "--json"}));
  EXPECT_EQ(from_csv["holes"]["rows"], 1);
  EXPECT_EQ(from_csv["decimal"], ",");
}

TEST_F(DataCommandTest, InspectionOfADamagedSeriesFileFails) {
  run({"synth", "--output", path("a.h5"), "--rows", "500"});
  std::fstream file(path("a.h5"), std::ios::in | std::ios::out | std::ios::binary);
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(path("a.h5")));
  std::vector<char> bytes(static_cast<size_t>(size));
  file.read(bytes.data(), size);
  // The values are most of the file; a byte in its middle is one of theirs.
  file.seekp(size / 2);
  file.put(static_cast<char>(bytes[static_cast<size_t>(size) / 2] ^ 0x10));
  file.close();
  ::testing::internal::CaptureStdout();
  const int code = data_command().run({"inspect", path("a.h5"), "--stats"});
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("checksum"));
  EXPECT_EQ(code, 3);
}

TEST_F(DataCommandTest, PassesOptionsOn) {
  const std::string csv =
      write("a.csv", "title\nwhen|who|x|z\n02.01.2020|b|-9|1\n01.01.2020|a|7|2\n");
  run({"import",
       csv,
       "--output",
       path("a.h5"),
       "--skip-lines",
       "1",
       "--time-column",
       "when",
       "--time-format",
       "%d.%m.%Y",
       "--time-zone=+01:00",
       "--series-column",
       "who",
       "--columns",
       "x",
       "--missing-values",
       "-9,NA",
       "--delimiter",
       "|",
       "--decimal",
       "."});
  const auto json = nlohmann::json::parse(run({"inspect", path("a.h5"), "--json", "--stats"}));
  EXPECT_EQ(json["series"][1]["name"], "a");
  EXPECT_EQ(json["series"][1]["first_time"], "2019-12-31T23:00:00Z");
  EXPECT_EQ(json["columns"], (std::vector<std::string>{"x"}));
  EXPECT_EQ(json["statistics"][0]["missing"], 1);
}

TEST_F(DataCommandTest, AnExistingOutputNeedsForce) {
  const std::vector<std::string> words = {"synth",  "--output",  path("s.h5"), "--series", "2",
                                          "--rows", "50",        "--columns",  "3",        "--seed",
                                          "7",      "--missing", "0.1"};
  EXPECT_THAT(run(words), HasSubstr("2 series of 50 rows and 3 columns"));
  EXPECT_THAT(usage_error(words), HasSubstr("--force"));
  const std::string csv = write("a.csv", "x,y\n1,2\n");
  EXPECT_THAT(usage_error({"import", csv, "--output", path("s.h5")}),
              HasSubstr(path("s.h5") + " exists; give --force to replace it"));
  std::vector<std::string> forced = words;
  forced.emplace_back("--force");
  run(forced);
}

TEST_F(DataCommandTest, WrongCommandLinesAreUsageErrors) {
  EXPECT_THAT(usage_error({}), HasSubstr("import, inspect or synth"));
  EXPECT_THAT(usage_error({"imprt"}), HasSubstr("no command 'imprt'"));
  EXPECT_THAT(usage_error({"import", "a.csv"}), HasSubstr("--output"));
  EXPECT_THAT(usage_error({"import", "--output", path("a.h5")}), HasSubstr("no CSV file"));
  EXPECT_THAT(usage_error({"import", "a.csv", "--frob"}), HasSubstr("frob"));
  EXPECT_THAT(usage_error({"inspect"}), HasSubstr("takes one file"));
  EXPECT_THAT(usage_error({"synth", "--output", path("a.h5"), "--rows", "many"}),
              HasSubstr("many"));
  EXPECT_THAT(usage_error({"import", "a.csv", "--output", path("a.h5"), "--delimiter", "ab"}),
              HasSubstr("one character"));
  EXPECT_THROW(data_command().run({"inspect", path("none.h5")}), data::DataError);
}

TEST_F(DataCommandTest, ValuesThatNoFileMakesRightAreUsageErrors) {
  const std::string csv = write("a.csv", "temp,b\n1,2\n");
  const std::string output = path("a.h5");
  for (const std::string option : {"--rows", "--series", "--columns"}) {
    EXPECT_THAT(usage_error({"synth", "--output", output, option, "0"}),
                HasSubstr("--series, --rows and --columns take 1 or more"));
  }
  for (const std::string share : {"1", "1.5"}) {
    EXPECT_THAT(usage_error({"synth", "--output", output, "--missing", share}),
                HasSubstr("--missing takes a share from 0 to below 1"));
  }
  EXPECT_THAT(usage_error({"import", csv, "--output", output, "--columns", "temp,temp"}),
              HasSubstr("--columns names 'temp' twice"));
  EXPECT_THAT(usage_error({"import", csv, path("./a.csv"), "--output", output}),
              HasSubstr("a.csv is named twice; name each CSV file once"));
  for (const char* command : {"import", "inspect"}) {
    std::vector<std::string> words = {command, csv, "--decimal", "x"};
    if (words.front() == "import") words.insert(words.end(), {"--output", output});
    EXPECT_THAT(usage_error(words), HasSubstr("--decimal takes . or , and not 'x'"));
  }
  EXPECT_FALSE(std::filesystem::exists(output));
}

TEST_F(DataCommandTest, NamesOfColumnsAreNotEmpty) {
  const std::string csv = write("a.csv", "a,b\n1,2\n");
  for (const std::string columns : {"", ",", "a,,b", "a,", ",a"}) {
    for (const char* command : {"import", "inspect"}) {
      std::vector<std::string> words = {command, csv, "--columns=" + columns};
      if (words.front() == "import") words.insert(words.end(), {"--output", path("a.h5")});
      EXPECT_THAT(usage_error(words), HasSubstr("--columns '" + columns + "' has an empty name"));
    }
  }
  EXPECT_THAT(usage_error({"inspect", csv, "--columns", ""}), HasSubstr("has an empty name"));
  EXPECT_THAT(usage_error({"inspect", csv, "--time-column", ""}),
              HasSubstr("--time-column names no column"));
  EXPECT_THAT(usage_error({"inspect", csv, "--series-column", ""}),
              HasSubstr("--series-column names no column"));
  EXPECT_FALSE(std::filesystem::exists(path("a.h5")));
}

TEST_F(DataCommandTest, AFileWithoutAHeaderIsImportedWhole) {
  const std::string csv = write("a.csv", "2013010100,1.5\n2013010101,2.5\n2013010102,3.5\n");
  try {
    data_command().run({"import", csv, "--output", path("a.h5")});
    ADD_FAILURE() << "no error";
  } catch (const data::DataError& error) {
    EXPECT_THAT(error.what(),
                ::testing::AllOf(HasSubstr("a.csv:1"), HasSubstr("'2013010100', '1.5'"),
                                 HasSubstr("give --no-header")));
  }
  run({"import", csv, "--output", path("a.h5"), "--no-header", "--time-column", "c0"});
  const auto json = nlohmann::json::parse(run({"inspect", path("a.h5"), "--json", "--stats"}));
  EXPECT_EQ(json["rows"], 3);
  EXPECT_EQ(json["columns"], (std::vector<std::string>{"c1"}));
  EXPECT_EQ(json["statistics"][0]["min"], 1.5);
  EXPECT_EQ(json["series"][0]["first_time"], "2013-01-01T00:00:00Z");
}

TEST_F(DataCommandTest, HelpIsThereAtEachLevel) {
  EXPECT_THAT(run({"--help"}), HasSubstr("import CSV..."));
  EXPECT_THAT(run({"import", "--help"}), HasSubstr("--series-column"));
  EXPECT_THAT(run({"import", "--help"}), HasSubstr("NULL"));
  EXPECT_THAT(run({"inspect", "-h"}), HasSubstr("--stats"));
  EXPECT_THAT(run({"synth", "--help"}), HasSubstr("--missing"));
}

TEST_F(DataCommandTest, PathsMayHoldCommas) {
  const std::string one = write("a,b.csv", "x,y\n1,2\n3,4\n");
  const std::string two = write("c,d.csv", "x,y\n5,6\n");
  run({"import", one, two, "--output", path("e,f.h5")});
  const auto json = nlohmann::json::parse(run({"inspect", path("e,f.h5"), "--json"}));
  EXPECT_EQ(json["rows"], 3);
  EXPECT_EQ(json["series"][0]["name"], "a,b");
  EXPECT_EQ(json["series"][1]["name"], "c,d");
  EXPECT_EQ(nlohmann::json::parse(run({"inspect", one, "--json"}))["rows"], 2);
}

TEST_F(DataCommandTest, ADiskWithoutRoomKeepsNothingOfAnImport) {
  const tests::SmallDisk disk(path("disk"));
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small tmpfs is not permitted here";
  std::string text = "x\n";
  for (int row = 0; row < 100'000; ++row) text += "1\n";
  const std::string csv = write("a.csv", text);
  const std::string output = path("disk/a.h5");
  try {
    data_command().run({"import", csv, "--output", output});
    ADD_FAILURE() << "no error";
  } catch (const data::DataError& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr(output + " cannot be written: it needs"),
                                               HasSubstr("make room or name another folder")));
  }
  EXPECT_TRUE(std::filesystem::is_empty(path("disk")));
}

TEST_F(DataCommandTest, NothingIsWrittenWhenTheImportFails) {
  const std::string csv = write("a.csv", "x,y\n1,2\n3\n");
  EXPECT_THROW(data_command().run({"import", csv, "--output", path("a.h5")}), data::DataError);
  EXPECT_FALSE(std::filesystem::exists(path("a.h5")));
}

}  // namespace
}  // namespace longship::launcher
