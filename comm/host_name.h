#pragma once

#include <string>

namespace longship::comm {

// This machine's host name, for messages; "unknown host" where the system does not tell.
std::string host_name();

}  // namespace longship::comm
