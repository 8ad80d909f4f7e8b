import Foundation
import Testing

@testable import ChaparCommands

@Suite("Notifications to systemd", .timeLimit(.minutes(1)), .about("apns"))
struct ServiceManagerTests {
    @Test("READY once the gateway listens, and nothing when it does not start")
    func ready() async throws {
        try await SandboxRig.run { rig in
            let path = rig.folder.appending(path: "notify").path
            let own = try Self.listen(path)
            defer { close(own) }
            let wrong = ["serve", "--config", rig.folder.appending(path: "none.yaml").path]
            #expect(try await Program.run(wrong, environment: ["NOTIFY_SOCKET": path]).status == 3)
            #expect(Self.read(own) == nil)
            let gateway = try await rig.serve(environment: ["NOTIFY_SOCKET": path])
            defer { gateway.child.kill() }
            let told = try await Program.wait("the word") { Self.read(own) }
            #expect(told == "READY=1")
            #expect(Self.read(own) == nil)
        }
    }

    private static func listen(_ path: String) throws -> Int32 {
        let own = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let isBound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(own, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
        try #require(isBound, "\(path)")
        return own
    }

    private static func read(_ own: Int32) -> String? {
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = recv(own, &bytes, bytes.count, Int32(MSG_DONTWAIT))
        return count < 0 ? nil : String(decoding: bytes[..<count], as: UTF8.self)
    }
}
