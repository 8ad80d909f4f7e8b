import CChaparNghttp2

extension NIOTransport {
    /// The version of the loaded nghttp2 library, such as `1.52.0`.
    package static var nghttp2Version: String {
        nghttp2_version(0).map { String(cString: $0.pointee.version_str) } ?? ""
    }
}
