"""The Java client as others get it: installed from its packed artifact into an empty project."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.java import IN_ONE_PROCESS, MAVEN, SDK, building, check_fetched, need_maven

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), IN_ONE_PROCESS]

#: Plugins, JUnit and Gson in the versions that the build of the client has had Maven fetch.
POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>example</groupId>
  <artifactId>empty</artifactId>
  <version>1</version>
  <properties>
    <maven.compiler.release>17</maven.compiler.release>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencyManagement>
    <dependencies>
      <dependency>
        <groupId>com.google.code.gson</groupId>
        <artifactId>gson</artifactId>
        <version>{gson}</version>
      </dependency>
    </dependencies>
  </dependencyManagement>
  <dependencies>
    <dependency>
      <groupId>io.flotilla</groupId>
      <artifactId>flotilla-client</artifactId>
      <version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.junit.jupiter</groupId>
      <artifactId>junit-jupiter</artifactId>
      <version>{junit}</version>
      <scope>test</scope>
    </dependency>
  </dependencies>
  <build>
    <plugins>
      {plugins}
    </plugins>
  </build>
</project>
"""
PROGRAM = """import io.flotilla.client.Client;
import org.junit.jupiter.api.Test;

class MainTest {
  @Test
  void theClientIsThere() {
    try (var client = new Client("127.0.0.1:7650")) {
      System.out.println("fine: " + client.getClass().getProtectionDomain().getCodeSource().getLocation());
    }
  }
}
"""


def run_maven(folder: Path, repository: Path, *arguments: str) -> str:
    command = [*MAVEN, f"-Dmaven.repo.local={repository}", *arguments]
    with building():
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        check_fetched(done.stdout)
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def linked_repository(folder: Path) -> Path:
    """A local repository with everything that the usual one has, except this client."""
    usual = Path.home() / ".m2" / "repository"
    if not usual.is_dir():
        pytest.skip("Maven has no local repository yet: make sdks")
    (folder / "io").mkdir(parents=True)
    for each in [*usual.iterdir(), *(usual / "io").iterdir()]:
        if each.is_dir() and each.name not in ("io", "flotilla"):
            (folder / each.relative_to(usual)).symlink_to(each)
    return folder


def test_artifact_installs_into_an_empty_project(tmp_path: Path) -> None:
    need_maven()
    repository = linked_repository(tmp_path / "repository")
    run_maven(SDK, repository, "install", "-Dmaven.test.skip=true")
    pom = (SDK / "pom.xml").read_text("utf-8")
    plugins = re.findall(r"<plugin>\s*<groupId>org.apache.maven.plugins.*?</plugin>", pom, re.DOTALL)
    versions = {
        "version": re.findall(r"<version>([^<]+)</version>", pom)[0],
        "junit": re.findall(r"<junit.version>([^<]+)</junit.version>", pom)[0],
        "gson": re.findall(r"<artifactId>gson</artifactId>\s*<version>([^<]+)</version>", pom)[0],
    }
    project = tmp_path / "project"
    (project / "src" / "test" / "java").mkdir(parents=True)
    (project / "src" / "test" / "java" / "MainTest.java").write_text(PROGRAM, "utf-8")
    (project / "pom.xml").write_text(POM.format(plugins="\n".join(plugins), **versions), "utf-8")
    printed = run_maven(project, repository, "test")
    assert f"fine: file:{repository}/io/flotilla/flotilla-client/" in printed
