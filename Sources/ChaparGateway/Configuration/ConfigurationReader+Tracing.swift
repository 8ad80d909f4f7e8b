internal import ChaparCore
internal import ChaparDelivery

extension ConfigurationReader {
    /// The header fields of requests to a collector that the gateway writes itself.
    private static let ownHeaders = ["host", "content-length", "content-type", "connection", "transfer-encoding"]

    /// Reads the section `tracing`; nil when it has no usable address.
    func tracing(_ section: ConfigSection) -> GatewayConfiguration.Tracing? {
        defer { section.finish() }
        let endpoint = section.requiredString("endpoint", "the address of the collector of traces")
        var tracing = GatewayConfiguration.Tracing(endpoint: endpoint ?? "")
        if let endpoint {
            do throws(WebhookURL.Mistake) {
                _ = try GatewayConfiguration.Tracing.url(endpoint)
            } catch {
                section.reject("endpoint", "is no address of a collector", fix: error.detail)
            }
        }
        tracing.sample = section.number("sample", in: 0...1, default: tracing.sample)
        tracing.serviceName = section.string("service_name", default: tracing.serviceName)
        tracing.trust = section.certificates("ca_file")
        if let headers = section.section("headers") {
            for name in headers.keys {
                let value = headers.secret(name)
                let isName = !name.isEmpty && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ":") }
                if !isName || Self.ownHeaders.contains(name.lowercased()) {
                    headers.reject(name, "is no header field to add", fix: "Write a name such as authorization.")
                } else if let value {
                    if value.reveal().utf8.allSatisfy({ (0x20...0x7E).contains($0) }) {
                        tracing.headers[name] = value
                    } else {
                        headers.reject(name, "has characters that a header field cannot hold", fix: "Write ASCII.")
                    }
                }
            }
            headers.finish()
        }
        return endpoint == nil ? nil : tracing
    }
}

extension GatewayConfiguration.Tracing {
    /// Reads the address of a collector; one without a path gets the usual one.
    static func url(_ text: String) throws(WebhookURL.Mistake) -> WebhookURL {
        let url = try WebhookURL(text)
        guard url.target == "/" else { return url }
        return try WebhookURL((text.hasSuffix("/") ? text : text + "/") + "v1/traces")
    }
}
