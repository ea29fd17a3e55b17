#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace longship::data {

// Reads a file by HDF5 where the file may be damaged in a way that HDF5 does not survive.
//
// Note [Damaged HDF5 files]
// HDF5 trusts the numbers in a file's structure: a flipped bit can send it around in a circle for
// ever, or to memory that is not there (both seen with 1.10). So `read` runs in a thread of its
// own. When that thread computes for `patience` without reading anything, it is left behind and the
// caller gets a DataError; hdf5_is_stuck() then tells that the process must end without waiting for
// it. A file system that keeps it waiting is another matter and is waited for. When it is ended by
// a signal for a broken access, the process ends there with exit code 3 and one line that names the
// file, which is all that can be done safely.
//
// Exceptions of `read` come out as they are. One call at a time in a process. What `read` refers to
// must live on after a DataError.
void guarded_hdf5(const std::string& path, std::function<void()> read,
                  std::chrono::seconds patience = std::chrono::seconds(60));

// Whether a thread was left behind in HDF5, which holds its lock.
bool hdf5_is_stuck();

// For tests and for other messages than those of rank 0: whether this process tells of a broken
// access (default: yes). For the start of the program.
void tell_broken_hdf5(bool tell);

}  // namespace longship::data
