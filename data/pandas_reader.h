#pragma once

#include <hdf5.h>

#include <string>
#include <string_view>
#include <vector>

#include "data/series_store.h"

namespace longship::data {

// Whether a group was written by pandas (it has the attribute `pandas_type`).
bool is_pandas_object(hid_t file, const std::string& path, const std::string& group);

// Reads a DataFrame of pandas' `fixed` or `table` format as one series: its columns of numbers in
// their order, its index as time when it is one. Throws DataError for other pandas objects, several
// levels of columns or index, and requested columns that hold no numbers; other such columns are
// left out with a note.
SeriesTable read_pandas(hid_t file, const std::string& path, const std::string& group,
                        const std::vector<std::string>& columns, Content content = Content::kAll);

// The strings in a list that Python pickled with protocol 0 (text), in order. Throws DataError,
// naming `where`, for other protocols.
std::vector<std::string> unpickle_strings(std::string_view pickle, const std::string& where);

}  // namespace longship::data
