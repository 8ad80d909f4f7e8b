import Foundation
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("The store's key", .timeLimit(.minutes(1)))
struct EncryptionKeyTests {
    private static let key = Data(repeating: 5, count: 32).base64EncodedString()

    private static func script(_ text: String) -> KeyCommand {
        KeyCommand(["/bin/sh", "-c", text], deadline: .seconds(20))
    }

    @Test("A program prints it, without a shell and without the gateway's environment")
    func printed() throws {
        #expect(try KeyCommand(["/bin/echo", "$HOME; \(Self.key)"]).run().reveal() == "$HOME; \(Self.key)")
        setenv("CHAPAR_TEST_SECRET", "planted", 1)
        let names = try Self.script("env | cut -d= -f1 | sort | tr '\\n' ' '").run().reveal().split(separator: " ")
        #expect(Set(names).isSubset(of: ["HOME", "LANG", "PATH", "PWD", "SHLVL", "_"]), "\(names)")
    }

    private static let failures = [
        "exit 3", "echo secret-word; exit 1", "kill -9 $$", "true", "yes secret-word",
    ]

    @Test("A program that fails gives a sentence without what it printed", arguments: failures)
    func failed(script: String) throws {
        let error = #expect(throws: KeyCommand.Failed.self) { try Self.script(script).run() }
        #expect(error?.description.contains("secret-word") == false)
    }

    @Test("A program that does not end is ended, also when another one keeps its output open")
    func endless() throws {
        for text in ["exec sleep 600", "sleep 2 & echo x; exit 0", "exec >&-; exec sleep 600"] {
            let command = KeyCommand(["/bin/sh", "-c", text], deadline: .milliseconds(200))
            #expect(throws: KeyCommand.Failed.self, "\(text)") { try command.run() }
        }
        #expect(throws: KeyCommand.Failed.self) { try KeyCommand(["/nowhere/at-all"]).run() }
    }

    @Test("It comes from the file itself, a file or a program, and old ones beside it")
    func section() throws {
        let keys = try Self.keys(["key": .string(Self.key)])
        #expect(keys.ids.count == 1 && keys.current != nil)
        let other = Data(repeating: 6, count: 32).base64EncodedString()
        let several = try Self.keys(
            [
                "key_command": ["/bin/echo", .string(other)],
                "old_keys": [["key_file": "old.key"], ["key": .string(String(repeating: "07", count: 32))]],
            ],
            files: ["old.key": Self.key + "\n"]
        )
        #expect(several.ids.count == 3 && several.current?.id == several.ids.first)
        let id = try #require(keys.current?.id)
        #expect(several.key(id) != nil)
        #expect(try Self.keys(["old_keys": [["key": .string(Self.key)]]]).current == nil)
        #expect(throws: KeyUnavailable.self) { try Self.keys(["key_command": ["/bin/echo", "secret-word"]]) }
    }

    private static func keys(_ object: JSONObject, files: [String: String] = [:]) throws -> SealingKeys {
        let sample = SampleSection(object, files: files)
        let encryption = GatewayConfiguration.Encryption(sample.section)
        #expect(sample.issues.isEmpty, "\(sample.issues)")
        return try encryption.keys()
    }

    private static let mistakes: [(JSONObject, [String])] = [
        ([:], ["key"]), (["key": "secret-word"], ["key"]), (["key_file": "no"], ["key_file"]),
        (["key_file": "word"], ["key_file"]), (["key_command": "secret-word"], ["key_command"]),
        (["key": .string(key), "key_file": "word"], ["key_file", "key"]), (["kex": .string(key)], ["key", "kex"]),
        (["key": .string(key), "old_keys": [["key": "secret-word"], [:]]], ["old_keys[0].key", "old_keys[1].key"]),
    ]

    @Test("A mistake is named by its key, and never shows what stands there", arguments: mistakes)
    func mistaken(object: JSONObject, paths: [String]) {
        let sample = SampleSection(object, files: ["word": "secret-word"])
        _ = GatewayConfiguration.Encryption(sample.section)
        let found = Set(sample.issues.map { String($0.path.dropFirst("backends.sample.".count)) })
        #expect(!found.isEmpty && found.isSubset(of: paths), "\(sample.issues)")
        #expect(!sample.issues.contains { "\($0)".contains("secret-word") || "\($0)".contains(Self.key) })
    }
}
