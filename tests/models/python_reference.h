#pragma once

#include <torch/csrc/jit/serialization/pickle.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace longship::tests {

using Tensors = std::map<std::string, at::Tensor>;

// Runs a Python script (a path below the source root) that reads a dictionary of tensors from the
// file of its first argument and writes one to the file of its second, both in torch.save's format.
inline Tensors run_python(const std::string& script, const Tensors& given) {
  std::string folder = (std::filesystem::temp_directory_path() / "longship-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("cannot create " + folder);
  struct Remove {
    std::string path;
    ~Remove() { std::filesystem::remove_all(path); }
  } const remove{folder};

  c10::Dict<std::string, at::Tensor> dictionary;
  for (const auto& [name, tensor] : given) dictionary.insert(name, tensor.detach().contiguous());
  const std::vector<char> bytes = torch::jit::pickle_save(dictionary);
  std::ofstream(folder + "/given.pt", std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));

  const std::string command = std::string("'") + LONGSHIP_PYTHON + "' '" + LONGSHIP_SOURCE_DIR +
                              "/" + script + "' '" + folder + "/given.pt' '" + folder +
                              "/found.pt'";
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);

  std::ifstream file(folder + "/found.pt", std::ios::binary);
  const std::vector<char> result{std::istreambuf_iterator<char>(file), {}};
  Tensors found;
  for (const auto& item : torch::jit::pickle_load(result).toGenericDict()) {
    found[item.key().toStringRef()] = item.value().toTensor();
  }
  return found;
}

}  // namespace longship::tests
