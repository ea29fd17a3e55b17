#include "comm/host_name.h"

#include <gtest/gtest.h>
#include <sys/utsname.h>

#include <string>

namespace longship::comm {
namespace {

TEST(HostName, IsTheSystemsNodeName) {
  utsname system{};
  ASSERT_EQ(uname(&system), 0);
  EXPECT_EQ(host_name(), std::string(system.nodename));
}

}  // namespace
}  // namespace longship::comm
