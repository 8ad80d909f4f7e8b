import ArgumentParser
import Foundation
import ChaparCore

/// The flags of a command on data that one backend's platform keeps.
struct PlatformAddress: ParsableArguments {
    @Option(help: "The backend's name.", completion: NameCompletion.backends.kind)
    var backend: String

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    /// Returns a path below that of the backend; the steps are encoded.
    func path(_ steps: String...) throws -> String {
        do throws(PushError) {
            return try FormEncoding.path(["v1", "backends", backend] + steps)
        } catch {
            throw CommandFailure(error.message, .usage)
        }
    }

    /// Runs `body` with a client of the gateway.
    func use(_ body: (DevicesClient) async throws -> Void) async throws { try await DevicesClient.use(gateway, body) }
}

extension DevicesClient {
    /// Posts an object once, and returns the answer when it is a success.
    func post(_ path: String, _ body: JSONObject) async throws -> JSONValue {
        let bytes = JSONValue.object(body).bytes
        return try await call { (client) throws(HTTPFailure) in
            try await client.post(path, bytes, idempotencyKey: UUID().uuidString)
        }.json
    }
}

/// Tokens as arguments: `service:token`, or the token alone.
enum TokenArguments {
    /// Returns the member of a request for an argument.
    static func json(_ text: String) -> JSONValue {
        let service = text.prefix { $0 != ":" }
        // A Firebase token has a colon too; the text before it is no service.
        guard service.utf8.count < text.utf8.count, TokenService.named(String(service)) != nil else {
            return .string(text)
        }
        return ["token": .string(String(text.dropFirst(service.count + 1))), "service": .string(String(service))]
    }

    /// Returns the lines of a file, or of stdin for `-`, each once and without empty ones; a warning counts repeats.
    static func lines(of path: String) throws -> [String] {
        let data =
            path == "-"
            ? FileHandle.standardInput.readDataToEndOfFile() : FileManager.default.contents(atPath: path)
        guard let data else { throw CommandFailure("cannot read \(path)", .usage) }
        let lines = try UTF8Text.whole(data, of: path == "-" ? "stdin" : path).split(whereSeparator: \.isNewline)
            .map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
        var seen: Set<String> = []
        let distinct = lines.filter { seen.insert($0).inserted }
        let repeats = lines.count - distinct.count
        if repeats > 0 { Shell.complain("\(repeats) repeated tokens were left out") }
        return distinct
    }

    /// Returns the only token of a command: its argument, or the only line of stdin for `-`.
    static func one(_ argument: String) throws -> String {
        guard argument == "-" else { return argument }
        let lines = try lines(of: "-")
        guard lines.count == 1 else { throw CommandFailure("stdin holds \(lines.count) tokens, not one", .usage) }
        return lines[0]
    }
}

/// The numbers of tokens that a platform accepted and refused over several calls.
struct TokenCounts {
    private(set) var done = 0
    private(set) var refused = 0

    /// Counts an answer's tokens, and reports each that was refused; `first` is the position of the request's first
    /// token.
    mutating func add(done count: Int, refused items: [JSONValue], from first: Int, _ form: OutputForm) {
        done = done.adding(clamping: count)
        refused += items.count
        for item in items {
            let index = Int64(first).adding(clamping: item["index"]?.integerValue ?? 0)
            if form.isJSON {
                var item = item.objectValue ?? JSONObject()
                item["index"] = .integer(index)
                Shell.print(.object(item))
                continue
            }
            let position = index.adding(clamping: 1)
            let device = item["device"]?.words.map { " (device \($0))" } ?? ""
            let again = item["retryable"]?.boolValue == true ? "; it may work later" : ""
            Shell.complain("refused: number \(position)\(device): \(item["reason"]?.words ?? "")\(again)")
        }
    }

    /// Throws the exit code for partial success or failure; returns when none was refused.
    func end() throws {
        if refused > 0 { throw done > 0 ? ExitStatus.partial : ExitStatus.failure }
    }
}
