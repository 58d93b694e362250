//! What a server must not get out of a client: credentials sent elsewhere, memory without end, or a wait without end.

use std::time::Duration;

use savemark_base::size::Span;
use savemark_base::{Error, Kind};
use savemark_storage::object::{self, Environment, ObjectOptions};
use savemark_storage::{Storage, Target};
use savemark_testing::alone;
use savemark_testing::wire::{Answer, Server};

const GOOGLE_KEY: &str = r#"{"disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}"#;
const TOKEN: &str = "session-token-of-tests";

fn variables(scheme: &str, endpoint: &str) -> Vec<(String, String)> {
    let pairs: &[(&str, &str)] = match scheme {
        "s3" => &[
            ("AWS_ENDPOINT_URL", endpoint),
            ("AWS_ACCESS_KEY_ID", "key-of-tests"),
            ("AWS_SECRET_ACCESS_KEY", "secret-of-tests"),
            ("AWS_SESSION_TOKEN", TOKEN),
        ],
        "gs" => &[("GOOGLE_BASE_URL", endpoint), ("GOOGLE_SERVICE_ACCOUNT_KEY", GOOGLE_KEY)],
        _ => &[
            ("AZURE_STORAGE_ENDPOINT", endpoint),
            ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
            ("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0LW9mLXRlc3Rz"),
        ],
    };
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn open(scheme: &str, endpoint: &str, more: &[(&str, &str)]) -> Result<object::Object, Error> {
    let more = more.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let environment = Environment::from_variables(variables(scheme, endpoint).into_iter().chain(more));
    let options = ObjectOptions { retries: 2, timeout: Span(2_000_000_000), ..Default::default() };
    object::open_in(&options, &Target::from(format!("{scheme}://bucket/place")), &environment)
}

fn told(error: &Error) -> String {
    format!("{error} | {}", error.hint.as_deref().unwrap_or_default())
}

/// Each way of asking: read, write, look, list, remove, and the requests of our own.
fn ask_everything(storage: &object::Object) -> Vec<Error> {
    let mut errors = vec![
        storage.get("x").unwrap_err(),
        storage.put("x", b"bytes").unwrap_err().error,
        storage.size("x").unwrap_err(),
        storage.list().unwrap_err(),
        storage.remove("x").unwrap_err(),
        storage.clear("").unwrap_err(),
    ];
    errors.extend(storage.lists_uploads().then(|| storage.uploads().unwrap_err()));
    errors
}

#[test]
fn no_redirect_is_followed_and_the_error_says_where_it_leads() {
    let other = Server::start(|_| Answer::new(200, "<ok/>"));
    for status in [301, 302, 303, 307, 308] {
        let to = format!("http://key:secret@127.0.0.1:{}/elsewhere?signature=secret", other.port());
        let server = Server::start(move |_| Answer::new(status, "").with("Location", &to));
        for scheme in ["s3", "gs", "az"] {
            let storage = open(scheme, &server.url(), &[]).unwrap();
            for error in ask_everything(&storage) {
                let told = told(&error);
                assert!(told.contains(&format!("redirects ({status}) to http://127.0.0.1:{}", other.port())), "{told}");
                let name = [("s3", "AWS_ENDPOINT_URL"), ("gs", "GOOGLE_BASE_URL"), ("az", "AZURE_STORAGE_ENDPOINT")];
                let name = name.into_iter().find(|(known, _)| *known == scheme).unwrap().1;
                assert!(told.contains(name) && !told.contains("secret") && !told.contains("bug"), "{told}");
            }
        }
        // Seven ways of S3 and six of the others, and a look whether an object was put; repeated, it would be three times that.
        assert!(server.requests().len() < 30, "{:#?}", server.requests());
    }
    assert_eq!(other.requests(), Vec::<String>::new(), "what the other server was sent");
}

#[test]
fn a_redirect_names_the_region_that_the_server_names() {
    let answer =
        || Answer::new(301, "<Error><Code>PermanentRedirect</Code></Error>").with("x-amz-bucket-region", "eu-west-1");
    let server = Server::start(move |_| answer());
    let error = open("s3", &server.url(), &[]).unwrap().get("x").unwrap_err();
    let told = told(&error);
    assert!(told.contains("region us-east-1") && told.contains("AWS_REGION=eu-west-1"), "{told}");
    // What is no region is not repeated.
    let odd = Server::start(|_| Answer::new(301, "").with("x-amz-bucket-region", "a;b $(c)"));
    let error = open("s3", &odd.url(), &[]).unwrap().get("x").unwrap_err();
    assert!(!format!("{error:?}").contains("$(c)"), "{error:?}");
}

#[test]
fn plain_http_is_for_loopback_alone() {
    for scheme in ["s3", "gs", "az"] {
        for host in ["localhost.evil.invalid", "127.0.0.1.evil.invalid", "[2001:db8::1]", "127.evil.invalid"] {
            let storage = open(scheme, &format!("http://{host}"), &[]).unwrap();
            let error = storage.get("x").unwrap_err();
            assert!(told(&error).contains("plain HTTP"), "{host}: {}", told(&error));
        }
    }
}

#[test]
fn credentials_in_an_endpoint_are_refused_and_not_repeated() {
    for (scheme, name) in [("s3", "AWS_ENDPOINT_URL"), ("gs", "GOOGLE_BASE_URL"), ("az", "AZURE_STORAGE_ENDPOINT")] {
        for wrong in [
            "http://user:topsecret@127.0.0.1:9000",
            "https://topsecret@storage.example",
            "https://storage.example/?sig=topsecret",
            "https://storage.example/#topsecret",
            "ftp://storage.example/topsecret",
            "topsecret",
            "http://",
        ] {
            let error = open(scheme, wrong, &[]).map(drop).unwrap_err();
            let told = told(&error);
            assert_eq!(error.kind, Kind::Usage, "{wrong}");
            assert!(told.contains(name) && !told.contains("topsecret"), "{told}");
        }
    }
    for (scheme, name) in [
        ("s3", "AWS_ENDPOINT_URL_STS"),
        ("s3", "AWS_METADATA_ENDPOINT"),
        ("s3", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        ("az", "AZURE_MSI_ENDPOINT"),
        ("az", "AZURE_AUTHORITY_HOST"),
    ] {
        let error =
            open(scheme, "http://127.0.0.1:1", &[(name, "http://u:topsecret@127.0.0.1")]).map(drop).unwrap_err();
        assert!(told(&error).contains(name) && !told(&error).contains("topsecret"), "{}", told(&error));
    }
}

/// A page that says that there is another one, for ever, under one name or under two in turns.
#[test]
fn a_listing_that_comes_back_to_a_page_ends() {
    for names in [1, 2] {
        let server = Server::start(move |request| {
            let turn = request.number % names;
            let item = "<Contents><Key>place/x</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>";
            let upload =
                "<Upload><Key>place/x</Key><UploadId>1</UploadId><Initiated>2026-01-01T00:00:00Z</Initiated></Upload>";
            let blob = "<Blobs><Blob><Name>place/x</Name><Properties><Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified><Content-Length>1</Content-Length><Content-Type>x</Content-Type></Properties></Blob></Blobs>";
            Answer::new(
                200,
                &match () {
                    () if request.head.contains("comp=list") => {
                        format!("<EnumerationResults>{blob}<NextMarker>next-{turn}</NextMarker></EnumerationResults>")
                    }
                    () if request.head.contains("uploads") => format!(
                        "<R>{upload}<IsTruncated>true</IsTruncated><NextKeyMarker>k{turn}</NextKeyMarker><NextUploadIdMarker>1</NextUploadIdMarker></R>"
                    ),
                    () if request.head.contains("uploadId") => {
                        format!(
                            "<R><IsTruncated>true</IsTruncated><NextPartNumberMarker>{turn}</NextPartNumberMarker></R>"
                        )
                    }
                    () => format!(
                        "<R>{item}<IsTruncated>true</IsTruncated><NextContinuationToken>next-{turn}</NextContinuationToken></R>"
                    ),
                },
            )
        });
        for scheme in ["s3", "gs", "az"] {
            let storage = open(scheme, &server.url(), &[]).unwrap();
            let mut errors = vec![storage.list().unwrap_err(), storage.folders().unwrap_err()];
            errors.extend(storage.lists_uploads().then(|| storage.uploads().unwrap_err()));
            let upload = object::Unfinished { key: "place/x".into(), id: "1".into(), started: String::new() };
            errors.extend(storage.lists_uploads().then(|| storage.parts(&upload).unwrap_err()));
            for error in errors {
                let told = told(&error);
                assert!(told.contains("same page") && told.contains("127.0.0.1") && !told.contains("bug"), "{told}");
            }
        }
    }
}

/// Answers that would take all memory if they were believed, or read to their end.
#[test]
fn no_answer_is_read_without_end() {
    if !alone(module_path!(), "no_answer_is_read_without_end") {
        return;
    }
    for (status, length) in [(200, None), (200, Some(1 << 62)), (403, None), (403, Some(1 << 62)), (404, Some(1 << 40))]
    {
        let server = Server::start(move |request| {
            let answer =
                if request.head.starts_with("HEAD") { Answer::new(404, "") } else { Answer::endless(status, length) };
            answer.with("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT").with("ETag", "\"x\"")
        });
        for scheme in ["s3", "gs", "az"] {
            let storage = open(scheme, &server.url(), &[]).unwrap();
            let mut errors = vec![storage.get("x").unwrap_err(), storage.list().unwrap_err()];
            errors.extend(storage.lists_uploads().then(|| storage.uploads().unwrap_err()));
            for error in errors {
                let told = told(&error);
                assert!(told.contains("bucket/place") && !told.contains("bug"), "{status} {length:?} {scheme}: {told}");
            }
        }
    }
    assert!(peak_memory_bytes() < 1 << 30, "{} MiB", peak_memory_bytes() >> 20);
}

fn peak_memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() << 10
}

/// Whoever has stopped waits for nobody, whatever was asked.
#[test]
fn each_request_to_a_silent_server_is_given_up_at_once() {
    let server = Server::start(|_| Answer::silent());
    type Ask = fn(&object::Object) -> Result<(), Error>;
    let asks: [Ask; 7] = [
        |s| s.get("x").map(drop),
        |s| s.put("x", b"y").map_err(|e| e.error),
        |s| s.size("x").map(drop),
        |s| s.list().map(drop),
        |s| s.remove("x"),
        |s| s.clear("").map(drop),
        |s| s.uploads().map(drop),
    ];
    for ask in asks {
        let environment = Environment::from_variables(variables("s3", &server.url()));
        let target = Target::from("s3://bucket/place".to_string());
        let storage = object::open_in(&ObjectOptions::default(), &target, &environment).unwrap();
        let before = server.requests().len();
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| ask(&storage));
            while server.requests().len() == before {
                std::thread::sleep(Duration::from_millis(5));
            }
            storage.stop();
            assert_eq!(asking.join().unwrap().unwrap_err().kind, Kind::Interrupted);
        });
    }
}
