import Foundation
internal import ChaparCore

/// Reports the program's state to systemd, where the unit asks for it (`Type=notify`); elsewhere it does nothing.
///
/// So `systemctl start`, and the installation of a package, end when the gateway listens, and fail when it never does.
enum ServiceManager {
    /// The state of a gateway that listens.
    static let ready = "READY=1"

    /// Sends a state; an error is ignored, since the manager has a deadline of its own.
    static func tell(_ state: String) {
        guard let path = ProcessInfo.processInfo.environment["NOTIFY_SOCKET"],
            path.hasPrefix("/") || path.hasPrefix("@")
        else { return }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        // A name that begins with @ is an abstract one, not a file: it begins with a zero byte.
        let bytes = path.hasPrefix("@") ? [0] + path.utf8.dropFirst() : Array(path.utf8)
        let head = MemoryLayout<sockaddr_un>.offset(of: \.sun_path) ?? 2
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { return }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let descriptor = socket(AF_UNIX, CLibrary.datagramSocket, 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        // A manager that does not read must not block the gateway.
        guard fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0 else { return }
        let length = socklen_t(clamping: head + bytes.count)
        let isConnected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, length) == 0 }
        }
        guard isConnected else { return }
        _ = Array(state.utf8).withUnsafeBytes { CLibrary.transmit($0, on: descriptor) }
    }
}
