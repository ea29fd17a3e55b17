#include "runtime/logging.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>

#include "runtime/error.h"
#include "runtime/file_descriptor.h"
#include "runtime/process_identity.h"

namespace longship::runtime {
namespace {

class ConsoleSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit ConsoleSink(std::shared_ptr<Console> console) : console_(std::move(console)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t buffer;
    formatter_->format(message, buffer);
    std::string line = fmt::to_string(buffer);
    // The formatter marked where the level stands.
    const char* const colour = console_->colour() ? escape(message.level) : nullptr;
    if (colour != nullptr && message.color_range_end > message.color_range_start) {
      line.insert(message.color_range_end, "\033[0m");
      line.insert(message.color_range_start, colour);
    }
    console_->write_line(line);
  }
  void flush_() override {}

 private:
  static const char* escape(spdlog::level::level_enum level) {
    switch (level) {
      case spdlog::level::warn:
        return "\033[33m";
      case spdlog::level::err:
      case spdlog::level::critical:
        return "\033[31m";
      default:
        return nullptr;
    }
  }

  std::shared_ptr<Console> console_;
};

class FileSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  FileSink(const std::string& path, std::shared_ptr<Console> console)
      : path_(path), console_(std::move(console)) {
    constexpr mode_t kUmaskDecides = 0666;
    file_ = FileDescriptor(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kUmaskDecides));
    if (!file_.valid()) throw ConfigError("cannot write the log " + reason());
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t buffer;
    formatter_->format(message, buffer);
    if (write_all(file_.get(), std::string_view(buffer.data(), buffer.size())) || told_) return;
    told_ = true;
    const std::string failure = reason();
    if (console_) console_->write_line("lines are missing from the log " + failure + "\n");
  }
  void flush_() override {}

 private:
  std::string reason() const {
    const int error = errno;
    return fmt::format("'{}' on host {}: {} (errno {})", path_, host_name(),
                       std::generic_category().message(error), error);
  }

  std::string path_;
  std::shared_ptr<Console> console_;
  FileDescriptor file_;
  bool told_ = false;
};

constexpr std::array<std::pair<std::string_view, spdlog::level::level_enum>, 5> kLevels = {{
    {"trace", spdlog::level::trace},
    {"debug", spdlog::level::debug},
    {"info", spdlog::level::info},
    {"warning", spdlog::level::warn},
    {"error", spdlog::level::err},
}};

}  // namespace

std::shared_ptr<spdlog::logger> make_logger(const std::string& level,
                                            const std::shared_ptr<Console>& console,
                                            const std::string& file) {
  auto logger = std::make_shared<spdlog::logger>("longship");
  if (console) {
    auto sink = std::make_shared<ConsoleSink>(console);
    sink->set_formatter(std::make_unique<spdlog::pattern_formatter>("%H:%M:%S %^%l%$ %v"));
    logger->sinks().push_back(std::move(sink));
  }
  if (!file.empty()) {
    auto sink = std::make_shared<FileSink>(file, console);
    sink->set_formatter(std::make_unique<spdlog::pattern_formatter>(
        "%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc));
    logger->sinks().push_back(std::move(sink));
  }
  for (const auto& [name, value] : kLevels) {
    if (level == name) logger->set_level(value);
  }
  return logger;
}

}  // namespace longship::runtime
