// The one translation unit that holds the bodies of Asio and of the parts of Beast in use.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
