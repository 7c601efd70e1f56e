#include "backend/cpu/cgroup.h"

#include <fstream>

namespace skipjack {
namespace {

bool Names(std::string_view controllers, std::string_view controller) {
  while (!controllers.empty()) {
    const std::size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == controller) return true;
    controllers = comma == std::string_view::npos ? std::string_view() : controllers.substr(comma + 1);
  }
  return false;
}

void AddGroupAndParents(const std::string& mount, std::string path, std::vector<std::string>* folders) {
  while (true) {
    folders->push_back(mount + (path == "/" ? "" : path));
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return;
    path.resize(slash);
  }
}

}  // namespace

CgroupFolders FindCgroupFolders(const std::string& root, std::string_view controller) {
  CgroupFolders folders;
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream file(root + "/proc/self/cgroup");
  // Lines are "hierarchy:controllers:path"; version 2 names no controllers.
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      AddGroupAndParents(mount, path, &folders.version2);
    } else if (Names(controllers, controller)) {
      AddGroupAndParents(mount + "/" + controllers, path, &folders.version1);
      AddGroupAndParents(mount + "/" + std::string(controller), path, &folders.version1);
    }
  }
  return folders;
}

}  // namespace skipjack
