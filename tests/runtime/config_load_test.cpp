#include "runtime/config_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "config_support.h"
#include "temporary_folder.h"

namespace longship::runtime {
namespace {

using namespace longship::tests;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(ParseConfig, FillsInTheDefaults) {
  const Config config = parse(kMinimal);
  EXPECT_EQ(config.run.name, "");
  EXPECT_EQ(config.run.directory, "runs");
  EXPECT_EQ(config.run.seed, 42);
  EXPECT_THAT(config.data.path, ElementsAre("weather.h5"));
  EXPECT_EQ(config.data.dataset, "");
  EXPECT_THAT(config.data.inputs, ElementsAre("temp", "dewp"));
  EXPECT_EQ(config.data.window, 48);
  EXPECT_EQ(config.data.horizon, 1);
  EXPECT_EQ(config.data.stride, 1);
  EXPECT_EQ(config.data.split, data::SplitSpec(data::SplitFractions{0.7, 0.1, 0.2}));
  EXPECT_EQ(config.data.normalize, "standard");
  EXPECT_EQ(config.data.missing, data::MissingPolicy::kError);
  EXPECT_TRUE(config.data.shuffle);
  EXPECT_EQ(config.train.epochs, 10);
  EXPECT_EQ(config.train.steps, 0);
  EXPECT_EQ(config.train.batch_size, 256);
  EXPECT_EQ(config.train.micro_batch_size, 0);
  EXPECT_EQ(config.train.loss, "mse");
  EXPECT_EQ(config.train.clip_norm, 0);
  EXPECT_EQ(config.train.max_skipped, 25);
  EXPECT_EQ(config.optimizer.name, "adamw");
  EXPECT_EQ(config.optimizer.lr, 1e-3);
  EXPECT_EQ(config.optimizer.weight_decay, 0.01);
  EXPECT_TRUE(config.optimizer.decay_biases);
  EXPECT_EQ(config.optimizer.beta1, 0.9);
  EXPECT_EQ(config.optimizer.beta2, 0.999);
  EXPECT_EQ(config.optimizer.eps, 1e-8);
  EXPECT_EQ(config.optimizer.momentum, 0.9);
  EXPECT_EQ(config.schedule.name, "constant");
  EXPECT_EQ(config.precision.mode, "auto");
  EXPECT_EQ(config.precision.init_scale, 65536);
  EXPECT_EQ(config.precision.growth_interval, 2000);
  EXPECT_EQ(config.eval.every_epochs, 1);
  EXPECT_EQ(config.eval.every_steps, 0);
  EXPECT_EQ(config.eval.season, 0);
  EXPECT_EQ(config.comm.backend, "auto");
  EXPECT_EQ(config.comm.wire, "fp16");
  EXPECT_EQ(config.comm.bucket_mib, 0);
  EXPECT_EQ(config.comm.timeout_s, 600);
  EXPECT_EQ(config.checkpoint.every_minutes, 10);
  EXPECT_EQ(config.checkpoint.every_steps, 0);
  EXPECT_EQ(config.checkpoint.keep, 3);
  EXPECT_EQ(config.log.level, "info");
  EXPECT_EQ(config.log.every_steps, 0);
  EXPECT_EQ(config.base_directory, "/base");
}

TEST(ParseConfig, ReadsTheValuesOfAllSections) {
  const Config config = parse(R"(
run: {name: lstm-weather, seed: 7}
data:
  path: [a.h5, "b, c.h5"]
  inputs: [temp]
  targets: temp
  window: 1e2
  missing: interpolate
model: {name: lstm, hidden_size: 64, dropout: .25, init: torch}
train: {batch_size: 1024, micro_batch_size: 128, loss: quantile, quantiles: [0.1, 0.5, 0.9]}
optimizer: {name: sgd, lr: +1E-2, momentum: 0}
schedule: {name: step, step_size: 100, gamma: 0.5}
log: {sample_order: yes}
)");
  EXPECT_EQ(config.run.name, "lstm-weather");
  EXPECT_THAT(config.data.path, ElementsAre("a.h5", "b, c.h5"));
  EXPECT_THAT(config.data.targets, ElementsAre("temp"));
  EXPECT_EQ(config.data.window, 100);
  EXPECT_EQ(config.data.missing, data::MissingPolicy::kInterpolate);
  EXPECT_EQ(config.model.options.integer("hidden_size"), 64);
  EXPECT_EQ(config.model.options.integer("num_layers"), 3);
  EXPECT_EQ(config.model.options.number("dropout"), 0.25);
  EXPECT_EQ(config.model.options.text("init"), "torch");
  EXPECT_EQ(config.train.micro_batch_size, 128);
  EXPECT_THAT(config.train.quantiles, ElementsAre(0.1, 0.5, 0.9));
  EXPECT_EQ(config.optimizer.lr, 0.01);
  EXPECT_EQ(config.optimizer.momentum, 0);
  EXPECT_EQ(config.schedule.step_size, 100);
  EXPECT_TRUE(config.log.sample_order);
}

TEST(ParseConfig, NamesFileLineAndNearestKeyOfAnUnknownOne) {
  EXPECT_EQ(error_with("optimizer:\n  weigth_decay: 0.1\n"),
            "run.yaml:8: optimizer.weigth_decay: there is no such key; did you mean "
            "optimizer.weight_decay?");
  EXPECT_THAT(error_with("train: {learing_rate: 5e-5}\n"), HasSubstr("optimizer.lr"));
  EXPECT_THAT(error_with("train: {optimizer: {lr: 1}}\n"),
              HasSubstr("'optimizer:' is a section of its own"));
  EXPECT_THAT(error_with("lr: 1e-3\n"),
              AllOf(StartsWith("run.yaml:7: "), HasSubstr("did you mean optimizer.lr?")));
  EXPECT_THAT(error_with("optimiser: {lr: 1e-3}\n"), HasSubstr("did you mean 'optimizer'?"));
  EXPECT_THAT(error_with("Train: {epochs: 3}\n"), HasSubstr("did you mean 'train'?"));
  EXPECT_THAT(error_with("optimizer.lr: 1e-3\n"), HasSubstr("write 'lr' below 'optimizer:'"));
  EXPECT_THAT(
      config_error([] {
        parse(kMinimal.substr(0, kMinimal.find("model")) + "model: {name: lstm, hiden_size: 4}\n");
      }),
      AllOf(HasSubstr("model.hiden_size: the model lstm has no such option"),
            HasSubstr("model.hidden_size")));
}

TEST(ParseConfig, NamesKeyValueAndRuleOfAWrongValue) {
  EXPECT_EQ(error_with("train:\n  batch_size: -1\n"),
            "run.yaml:8: train.batch_size: -1 is out of range: must be at least 1 (1 or more)");
  EXPECT_THAT(error_with("train: {batch_size: 0}\n"), HasSubstr("at least 1"));
  EXPECT_THAT(error_with("train: {batch_size: 2.5}\n"), HasSubstr("2.5 is not a whole number"));
  EXPECT_THAT(error_with("train: {batch_size: 3000000000}\n"), HasSubstr("at most 2147483647"));
  EXPECT_THAT(error_with("train: {batch_size: 99999999999999999999}\n"),
              HasSubstr("beyond the largest integer"));
  EXPECT_THAT(error_with("train: {batch_size: 08}\n"), HasSubstr("leading zeros"));
  EXPECT_THAT(error_with("train: {batch_size: \"64\"}\n"), HasSubstr("remove the quotes"));
  EXPECT_THAT(error_with("optimizer: {lr: .inf}\n"), HasSubstr("not a finite number"));
  EXPECT_THAT(error_with("optimizer: {lr: 1e400}\n"), HasSubstr("too large"));
  EXPECT_THAT(error_with("optimizer: {lr: 0}\n"), HasSubstr("must be more than 0"));
  EXPECT_THAT(error_with("optimizer: {lr: }\n"), HasSubstr("optimizer.lr: has no value"));
  EXPECT_THAT(error_with("optimizer: {lr: [1e-3]}\n"), HasSubstr("is a list"));
  EXPECT_THAT(error_with("data: {horizon: -5}\n"), HasSubstr("data is given twice"));
  EXPECT_THAT(error_with("optimizer: {name: adam}\n"), HasSubstr("did you mean adamw?"));
  EXPECT_THAT(error_with("optimizer: adamw\n"), HasSubstr("'optimizer:' is a section"));
}

TEST(ParseConfig, RefusesKeysGivenTwiceWithBothLines) {
  EXPECT_EQ(error_with("train:\n  epochs: 3\n  batch_size: 8\n  epochs: 4\n"),
            "run.yaml:10: train.epochs is given twice, first in line 8");
}

TEST(ParseConfig, NamesARequiredKeyThatIsMissing) {
  EXPECT_EQ(config_error([] {
              parse(
                  "data: {path: a.h5, inputs: [x], targets: [x]}\n"
                  "model: {name: linear}\n");
            }),
            "run.yaml: data.window is missing: How far the model looks back. (integer, 1 or more)");
  EXPECT_THAT(config_error([] { parse(""); }), StartsWith("run.yaml: data.path is missing"));
}

TEST(ParseConfig, RefusesTextThatIsNoRunFile) {
  EXPECT_THAT(config_error([] { parse("data: [1, 2\n"); }), HasSubstr("this is not valid YAML"));
  EXPECT_THAT(config_error([] { parse("a: b: c\n"); }), StartsWith("run.yaml:1: "));
  EXPECT_THAT(config_error([] { parse("- a\n- b\n"); }), HasSubstr("holds sections"));
  EXPECT_THAT(config_error([] { parse(std::string("\x89HDF\r\n\x1a\n\0\0", 10)); }),
              HasSubstr("not text"));
  EXPECT_THAT(error_with("run: {name: \"d\xfcrr\"}\n"), HasSubstr("bytes that are not UTF-8"));
  EXPECT_THAT(error_with("", {"run.name=d\xfcrr"}), HasSubstr("--set holds bytes that are not"));
  EXPECT_THAT(error_with("", {"run.name=\xed\xa0\x80"}), HasSubstr("not UTF-8"));  // surrogate
  EXPECT_THAT(error_with("---\nrun: {seed: 1}\n"), HasSubstr("2 YAML documents"));
  EXPECT_THAT(config_error([] { parse(std::string(100000, '[')); }), StartsWith("run.yaml"));
}

TEST(ParseConfig, TakesSectionsWithoutKeys) {
  EXPECT_EQ(parse_with("optimizer:\n  # lr: 1e-2\n").optimizer.lr, 1e-3);
}

TEST(Overrides, GoBeforeTheFileAndTheLastCounts) {
  const Config config = parse_with("optimizer: {lr: 1e-3}\ntrain: {epochs: 3}\n",
                                   {"optimizer.lr=5e-5", "train.epochs=4", "train.epochs=9",
                                    "data.inputs=[a, 'b,c']", "run.name=x #1: y"});
  EXPECT_EQ(config.optimizer.lr, 5e-5);
  EXPECT_EQ(config.train.epochs, 9);
  EXPECT_THAT(config.data.inputs, ElementsAre("a", "b,c"));
  EXPECT_EQ(config.run.name, "x #1: y");
}

TEST(Overrides, AreNamedInErrors) {
  EXPECT_EQ(error_with("", {"optimizer.lr=-1"}),
            "--set optimizer.lr=-1: optimizer.lr: -1 is out of range: must be more than 0");
  EXPECT_THAT(error_with("", {"optimizer.learning_rate=1"}),
              AllOf(StartsWith("--set optimizer.learning_rate=1: "), HasSubstr("optimizer.lr?")));
  EXPECT_THAT(error_with("", {"lr=1"}), HasSubstr("did you mean optimizer.lr?"));
  EXPECT_THAT(error_with("", {"optimizer.lr="}), HasSubstr("has no value"));
  EXPECT_THAT(error_with("", {"optimizer.lr='1'"}), HasSubstr("remove the quotes"));
  EXPECT_THAT(error_with("", {"data.inputs=[a, b"}), HasSubstr("not valid YAML"));
  EXPECT_THROW(parse_with("", {"optimizer.lr"}), UsageError);
  EXPECT_THROW(parse_with("", {"=3"}), UsageError);
}

TEST(Overrides, OfPathsAreRelativeToTheCurrentFolder) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_THAT(resolve_paths(parse_with("", {"data.path=a, b.h5"})), ElementsAre(here + "/a, b.h5"));
}

TEST(ParseConfig, LetsOneKeyReplaceAnother) {
  const Config steps = parse_with("train: {steps: 100}\neval: {every_steps: 10}\n");
  EXPECT_EQ(steps.train.steps, 100);
  EXPECT_EQ(steps.train.epochs, 0);
  EXPECT_EQ(steps.eval.every_epochs, 0);
  EXPECT_EQ(steps.eval.every_steps, 10);
  EXPECT_THAT(error_with("train: {steps: 100, epochs: 3}\n"),
              HasSubstr("train.steps: is given together with train.epochs"));
  EXPECT_EQ(parse_with("train: {epochs: 3}\n", {"train.steps=5"}).train.epochs, 0);
  const Config epochs = parse_with("train: {steps: 100}\n", {"train.epochs=5"});
  EXPECT_EQ(epochs.train.steps, 0);
  EXPECT_EQ(epochs.train.epochs, 5);
}

TEST(ParseConfig, TurnsCheckpointsByTimeOffOnlyWhenStepsAreGivenAlone) {
  EXPECT_EQ(parse_with("checkpoint: {every_steps: 5}\n").checkpoint.every_minutes, 0);
  EXPECT_EQ(parse_with("checkpoint: {every_steps: 5, every_minutes: 2}\n").checkpoint.every_minutes,
            2);
}

TEST(LoadConfig, ResolvesPathsAgainstTheFilesFolder) {
  const TemporaryFolder folder;
  const std::filesystem::path deep = folder.path() / "a b" / "Zürich,1" / "'q'";
  std::filesystem::create_directories(deep);
  std::ofstream(deep / "-run.yaml") << kMinimal;
  const Config config = load_config((deep / "-run.yaml").string());
  EXPECT_THAT(resolve_paths(config), ElementsAre((deep / "weather.h5").string()));
  EXPECT_THAT(config.data.path, ElementsAre("weather.h5"));
}

TEST(LoadConfig, NamesAFileThatCannotBeRead) {
  const TemporaryFolder folder;
  EXPECT_THAT(config_error([&] { load_config(folder / "none.yaml"); }),
              AllOf(HasSubstr(folder / "none.yaml"), HasSubstr("No such file or directory")));
  EXPECT_THAT(config_error([&] { load_config(folder.path().string()); }), HasSubstr("is a folder"));
  // Opening a pipe without a writer would wait for one.
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(config_error([&] { load_config(folder / "pipe"); }),
              HasSubstr("is a device or pipe"));
  // Its first byte is mapped by nobody.
  EXPECT_THAT(config_error([&] { load_config("/proc/self/mem"); }),
              AllOf(HasSubstr("cannot read the run file '/proc/self/mem'"), HasSubstr("error")));
}

TEST(ResolvePaths, KnowsAbsoluteAndHomePaths) {
  setenv("HOME", "/home/ada", 1);
  const Config config = parse_with("", {"data.path=[/abs/x.h5, ~/y.h5]"});
  EXPECT_THAT(resolve_paths(config), ElementsAre("/abs/x.h5", "/home/ada/y.h5"));
}

}  // namespace
}  // namespace longship::runtime
