// SPDX-License-Identifier: Apache-2.0
//! Finds the library: in the directory LLM_LIB_DIR, else by pkg-config, else where the linker looks.
use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=LLM_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    for directory in directories() {
        println!("cargo:rustc-link-search=native={directory}");
    }
    println!("cargo:rustc-link-lib=llm");
}

fn directories() -> Vec<String> {
    if let Ok(directory) = env::var("LLM_LIB_DIR") {
        return vec![directory];
    }
    let found = Command::new("pkg-config").args(["--libs-only-L", "llm"]).output();
    let text = found.map_or_else(|_| Vec::new(), |output| output.stdout);
    String::from_utf8_lossy(&text)
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("-L"))
        .map(String::from)
        .collect()
}
