// Where the control-group files that limit this process lie, for versions 1 and 2 and inside containers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace skipjack {

// Folders to look into, this process's own group first, then its parents up to the mount. A path that does
// not exist below the mount (a container sees its own group as the mount's root, but the host's path in
// /proc) leaves the mount itself, which is right.
struct CgroupFolders {
  std::vector<std::string> version1;  // of the controller's own hierarchy
  std::vector<std::string> version2;
};

// `root` is put before /proc and /sys ("" on the live system).
CgroupFolders FindCgroupFolders(const std::string& root, std::string_view controller);

}  // namespace skipjack
