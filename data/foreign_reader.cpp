#include "data/foreign_reader.h"

#include "data/error.h"

namespace longship::data {

SeriesTable read_foreign(hid_t, const std::string& path, const std::string&,
                         const std::vector<std::string>&) {
  throw DataError(path + " is not a Longship series file");
}

}  // namespace longship::data
