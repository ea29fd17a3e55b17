#include <algorithm>
#include <cxxopts.hpp>
#include <filesystem>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "data/csv_import.h"
#include "data/inspect.h"
#include "data/series_writer.h"
#include "data/synthetic.h"
#include "launcher/arguments.h"
#include "launcher/command.h"
#include "launcher/data_report.h"
#include "launcher/json_text.h"
#include "launcher/output_file.h"
#include "runtime/error.h"

namespace longship::launcher {
namespace {

using Words = std::vector<std::string>;

// Parses the words after `longship data NAME`; what is not an option lands in `files`. Nothing when
// help was asked for and given.
std::optional<cxxopts::ParseResult> parse(cxxopts::Options& options, const Words& words) {
  options.add_options()("h,help", "Show this help");
  options.add_options()("files", "", cxxopts::value<Words>());
  options.parse_positional({"files"});
  cxxopts::ParseResult result = parse_arguments(options, words);
  if (result.count("help") == 0) return result;
  std::cout << options.help({""});
  return std::nullopt;
}

template <typename T>
T value_of(const cxxopts::ParseResult& result, const std::string& option, T otherwise) {
  if (result.count(option) == 0) return otherwise;
  try {
    return result[option].as<T>();
  } catch (const cxxopts::exceptions::exception& error) {
    throw runtime::UsageError("--" + option + ": " + error.what());
  }
}

Words files_of(const cxxopts::ParseResult& result) {
  return value_of<Words>(result, "files", {});
}

std::string output_of(const cxxopts::ParseResult& result, const Words& inputs = {}) {
  const auto output = value_of<std::string>(result, "output", "");
  if (output.empty()) throw runtime::UsageError("--output FILE.h5 is missing");
  return check_output_file(output, result.count("force") > 0, inputs);
}

// One character, "tab", or the usual ways to write a tab.
char character_of(const cxxopts::ParseResult& result, const std::string& option) {
  const auto text = value_of<std::string>(result, option, "");
  if (text.empty()) return 0;
  if (text == "tab" || text == "\\t") return '\t';
  if (text.size() != 1) {
    throw runtime::UsageError("--" + option + " takes one character, not '" + text + "'");
  }
  return text.front();
}

char decimal_of(const cxxopts::ParseResult& result) {
  const char mark = character_of(result, "decimal");
  if (mark != 0 && mark != '.' && mark != ',') {
    throw runtime::UsageError(std::string("--decimal takes . or , and not '") + mark + "'");
  }
  return mark;
}

// A file that is named twice would count twice.
void check_repeated(const Words& files) {
  std::set<std::string> seen;
  for (const std::string& file : files) {
    std::error_code error;
    if (!seen.insert(std::filesystem::weakly_canonical(file, error).string()).second) {
      throw runtime::UsageError(file + " is named twice; name each CSV file once");
    }
  }
}

// Of an option that names a column.
std::string name_of(const cxxopts::ParseResult& result, const std::string& option) {
  const auto name = value_of<std::string>(result, option, "");
  if (name.empty() && result.count(option) > 0) {
    throw runtime::UsageError("--" + option + " names no column; give a name, or leave it out");
  }
  return name;
}

// Cut at commas; a comma itself cannot be in a name here.
Words list_of(const std::string& text) {
  Words items;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(',', begin);
    items.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return items;
    begin = end + 1;
  }
}

Words columns_of(const cxxopts::ParseResult& result) {
  if (result.count("columns") == 0) return {};
  const auto text = value_of<std::string>(result, "columns", "");
  Words names = list_of(text);
  if (std::find(names.begin(), names.end(), "") != names.end()) {
    throw runtime::UsageError("--columns '" + text +
                              "' has an empty name; give names cut at single commas, such as a,b");
  }
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) {
      throw runtime::UsageError("--columns names '" + name + "' twice; name each column once");
    }
  }
  return names;
}

void add_csv_options(cxxopts::Options& options) {
  options.add_options()("time-column",
                        "Column of the time; recognised when its cells are ISO 8601, "
                        "YYYY/MM/DD, DD.MM.YYYY or slash dates with or without a time, or "
                        "ascending numbers YYYYMMDD[HH[MM[SS]]]; none: import without time",
                        cxxopts::value<std::string>(), "NAME");
  options.add_options()("series-column", "Column that tells several series of one file apart",
                        cxxopts::value<std::string>(), "NAME");
  options.add_options()("columns",
                        "Columns of values to take, in this order; default: every column "
                        "of numbers (those that float32 does not hold are refused)",
                        cxxopts::value<std::string>(), "a,b");
  options.add_options()("delimiter", "Between fields: , ; | or tab; recognised when unambiguous",
                        cxxopts::value<std::string>(), "C");
  options.add_options()("decimal",
                        "Decimal mark, . or comma; recognised when unambiguous. Marks that "
                        "group thousands are refused",
                        cxxopts::value<std::string>(), "C");
  options.add_options()("time-format",
                        "Format of the time: %Y %m %d %H %M %S %f %z %b %p %I %j %y %s, "
                        "or epoch-s, epoch-ms, epoch-us, epoch-ns",
                        cxxopts::value<std::string>(), "F");
  options.add_options()("time-zone",
                        "Zone of times without one: UTC or an offset such as +01:00; "
                        "default UTC",
                        cxxopts::value<std::string>(), "Z");
  options.add_options()("missing-values",
                        "Texts for a missing value, cut at commas, instead of: empty, "
                        "NA, N/A, n/a, #N/A, <NA>, NaN, nan, NULL, null, None",
                        cxxopts::value<std::string>(), "A,B");
  options.add_options()("skip-lines", "Lines in front of the header", cxxopts::value<int64_t>(),
                        "N");
  options.add_options()("no-header",
                        "The first line holds values: columns are called c0, c1, ..., also for "
                        "--time-column, --series-column and --columns");
  options.add_options()("strict",
                        "Refuse unsorted or repeated rows, holes and irregular steps instead "
                        "of repairing and reporting them");
}

data::CsvImportOptions csv_options(const cxxopts::ParseResult& result) {
  data::CsvImportOptions options;
  options.time_column = name_of(result, "time-column");
  options.series_column = name_of(result, "series-column");
  options.columns = columns_of(result);
  options.delimiter = character_of(result, "delimiter");
  options.decimal = decimal_of(result);
  options.time_format = value_of<std::string>(result, "time-format", "");
  options.time_zone = value_of<std::string>(result, "time-zone", "");
  if (result.count("missing-values") > 0) {
    options.missing_values = list_of(result["missing-values"].as<std::string>());
  }
  options.skip_lines = value_of<int64_t>(result, "skip-lines", 0);
  options.no_header = result.count("no-header") > 0;
  options.strict = result.count("strict") > 0;
  if (options.skip_lines < 0) throw runtime::UsageError("--skip-lines takes 0 or more");
  return options;
}

int run_import(const Words& words) {
  cxxopts::Options options(
      "longship data import",
      "Turns CSV files into a series file. Rows are sorted by time, exact copies "
      "dropped, and absent rows of a regular grid added as missing; all of it is "
      "said. Without --series-column each file is one series.");
  options.custom_help("CSV... --output FILE.h5 [OPTIONS]").positional_help("");
  options.add_options()("output", "Series file to write", cxxopts::value<std::string>(), "FILE.h5");
  options.add_options()("force", "Replace an existing output");
  add_csv_options(options);
  const auto result = parse(options, words);
  if (!result) return 0;
  const Words files = files_of(*result);
  if (files.empty()) throw runtime::UsageError("longship data import: no CSV file is named");
  check_repeated(files);
  const data::CsvImportOptions wanted = csv_options(*result);
  const std::string output = output_of(*result, files);
  const data::CsvImport imported = data::import_csv(files, wanted);
  data::write_series_file(output, imported.table, result->count("force") > 0);
  print_import(std::cout, imported);
  std::cout << "written        " << output << "\n";
  return 0;
}

int run_inspect(const Words& words) {
  cxxopts::Options options(
      "longship data inspect",
      "Shows what an HDF5 or CSV file holds and what training would take of it.");
  options.custom_help("FILE [OPTIONS]").positional_help("");
  options.add_options()("json", "Print one JSON object");
  options.add_options()("stats",
                        "Read all values: counts, range, mean and deviation of each column");
  options.add_options()("dataset", "What to read in an HDF5 file that is not a series file",
                        cxxopts::value<std::string>(), "PATH");
  add_csv_options(options);
  const auto result = parse(options, words);
  if (!result) return 0;
  const Words files = files_of(*result);
  if (files.size() != 1) throw runtime::UsageError("longship data inspect takes one file");
  const bool json = result->count("json") > 0;
  const bool statistics = result->count("stats") > 0;
  if (is_text_file(files.front())) {
    const data::CsvImport imported = data::import_csv(files, csv_options(*result));
    if (json) {
      std::cout << text_of(json_of(files.front(), imported, statistics)) << "\n";
    } else {
      print_import(std::cout, imported);
      if (statistics) print_statistics(std::cout, data::column_statistics(imported.table));
    }
    return 0;
  }
  const data::FileInspection inspection =
      data::inspect_file(files.front(), value_of<std::string>(*result, "dataset", ""), statistics);
  if (json) {
    std::cout << text_of(json_of(inspection)) << "\n";
  } else {
    print_inspection(std::cout, inspection);
  }
  // Another HDF5 file may be none to train on; a series file that cannot be read is damaged.
  const bool damaged = inspection.format == "longship-series" && !inspection.readable;
  return static_cast<int>(damaged ? runtime::ExitCode::kInput : runtime::ExitCode::kDone);
}

int run_synth(const Words& words) {
  cxxopts::Options options(
      "longship data synth",
      "Writes a series file of synthetic hourly series: daily and weekly waves, a "
      "trend and noise.");
  options.custom_help("--output FILE.h5 [OPTIONS]").positional_help("");
  data::SyntheticSpec spec;
  options.add_options()("output", "Series file to write", cxxopts::value<std::string>(), "FILE.h5");
  options.add_options()("force", "Replace an existing output");
  options.add_options()("series", "Number of series (default: 3)", cxxopts::value<int64_t>(), "N");
  options.add_options()("rows", "Rows of each, in hours (default: 10000)",
                        cxxopts::value<int64_t>(), "N");
  options.add_options()("columns", "Columns (default: 4)", cxxopts::value<int64_t>(), "N");
  options.add_options()("seed", "Equal seeds give equal values (default: 42)",
                        cxxopts::value<uint64_t>(), "N");
  options.add_options()("missing", "Share of missing values, 0 to below 1 (default: 0)",
                        cxxopts::value<double>(), "P");
  const auto result = parse(options, words);
  if (!result) return 0;
  if (!files_of(*result).empty()) {
    throw runtime::UsageError("longship data synth takes no file but --output: '" +
                              files_of(*result).front() + "'");
  }
  spec.series = value_of(*result, "series", spec.series);
  spec.rows = value_of(*result, "rows", spec.rows);
  spec.columns = value_of(*result, "columns", spec.columns);
  spec.seed = value_of(*result, "seed", spec.seed);
  spec.missing = value_of(*result, "missing", spec.missing);
  if (spec.series < 1 || spec.rows < 1 || spec.columns < 1) {
    throw runtime::UsageError("longship data synth: --series, --rows and --columns take 1 or more");
  }
  if (!(spec.missing >= 0 && spec.missing < 1)) {
    throw runtime::UsageError("--missing takes a share from 0 to below 1");
  }
  const std::string output = output_of(*result);
  data::write_series_file(output, data::make_synthetic(spec), result->count("force") > 0);
  std::cout << "written        " << output << ": " << spec.series << " series of " << spec.rows
            << " rows and " << spec.columns << " columns\n";
  return 0;
}

constexpr const char* kHelp =
    "Usage: longship data COMMAND ...\n\n"
    "  import CSV... --output FILE.h5   turn CSV files into a series file\n"
    "  inspect FILE [--json] [--stats]  show what a file holds\n"
    "  synth --output FILE.h5           write synthetic series\n\n"
    "longship data COMMAND --help shows the options.\n";

int run_data(const Words& words) {
  if (words.empty())
    throw runtime::UsageError("longship data needs a command: import, inspect or synth");
  const Words rest(words.begin() + 1, words.end());
  if (words.front() == "import") return run_import(rest);
  if (words.front() == "inspect") return run_inspect(rest);
  if (words.front() == "synth") return run_synth(rest);
  if (words.front() == "--help" || words.front() == "-h") {
    std::cout << kHelp;
    return 0;
  }
  throw runtime::UsageError("longship data has no command '" + words.front() +
                            "'; it has import, inspect and synth");
}

}  // namespace

Command data_command() {
  return {"data", "Import CSV files, inspect data files, write synthetic series", run_data};
}

}  // namespace longship::launcher
